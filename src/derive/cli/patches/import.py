# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N999 - the command's own name, which is loaded by its name alone
"""Add the patches of mailboxes, as git format-patch writes them, to the end of a series.

Edge: the project's folder, standard streams.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, wants_json
from derive.errors import InputErrors
from derive.infile import read_named, read_stream

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  git format-patch --stdout v1.2..fix | derive patches import perftest -
  derive patches import perftest fixes.mbox --origin 'backport, https://example.org/pull/7'
  derive patches import newthing series.mbox --licence MIT      begins patches/newthing
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("upstream", metavar="UPSTREAM", help="the series that the patches are added to")
    parser.add_argument("mailbox", nargs="+", metavar="MBOX", help="a mailbox or a single mail; - for standard input")
    parser.add_argument("--origin", default="", metavar="TEXT", help="whence they come (default: marked TODO)")
    parser.add_argument("--licence", default="", metavar="SPDX", help="their licence (default: the series')")
    parser.add_argument("--when-to-drop", default="", metavar="TEXT", help="when they may go (default: marked TODO)")


def run(args: argparse.Namespace) -> int:
    """Read the mails, write the patches, and print their files."""
    from derive.patches.importing import Said, import_mails

    root = project_root(args)
    said = Said(
        origin=_line(args.origin, "--origin"),
        licence=args.licence,
        when_to_drop=_line(args.when_to_drop, "--when-to-drop"),
    )
    done = import_mails(root, args.upstream, [_read(name) for name in args.mailbox], said)
    for passed in done.passed_over:
        note(f"{passed}: no change, passed over")
    if wants_json(args):
        answer_record("patches-import", args.upstream, {"patches": list(done.names)})
    else:
        answer("\n".join(f"patches/{args.upstream}/{name}" for name in done.names))
    note(f"see what they do: derive patches status {args.upstream}; what is to be written: derive patches list --check")
    return 0


def _line(text: str, where: str) -> str:
    if not text.isprintable():
        raise InputErrors.one("not one line of text", where=where)
    return text.strip()


def _read(name: str) -> tuple[str, bytes]:
    if name == "-":
        return "standard input", read_stream(sys.stdin.buffer, "standard input")
    return name, read_named(name)
