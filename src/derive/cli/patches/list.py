# SPDX-License-Identifier: Apache-2.0
"""List patches: what each changes, why it is there, whence it comes, under which licence, and when it may go.

Edge: the project's folder, standard streams.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, table, wants_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from derive.patches.overview import Overview

EXAMPLES = """\
  derive patches list
  derive patches list perftest --long
  derive patches list --check                 exit code 1 when a header lacks a field
"""

_PROSE = 56


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("upstream", nargs="?", metavar="UPSTREAM", help="one series (default: all)")
    parser.add_argument("--long", action="store_true", help="print what each header says, in full")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a patch lacks why, origin or when")


def run(args: argparse.Namespace) -> int:
    """Read every header, and print what it says."""
    from derive.patches.overview import overview

    found = overview(project_of(args), args.upstream)
    lacking = [one for one in found if one.notes.missing]
    if wants_json(args):
        answer_record("patches", args.upstream or "", {"patches": [one.document() for one in found]})
    elif found:
        answer("\n\n".join(_block(one) for one in found) if args.long else _fitted(_table(found)))
    for one in lacking:
        note(f"{one.place}: lacks {', '.join(one.notes.missing)}")
    return int(bool(args.check and lacking))


def _table(found: Sequence[Overview]) -> str:
    head = ("upstream", "patch", "files", "hunks", "+", "-", "origin", "licence", "why", "may go")
    rows = [
        (
            one.upstream,
            one.name,
            str(one.files),
            str(one.hunks),
            str(one.added),
            str(one.removed),
            _cut(one.notes.origin),
            one.licence,
            _cut(one.notes.summary),
            _cut(one.notes.when_to_drop),
        )
        for one in found
    ]
    return table([head, *rows], right=frozenset({2, 3, 4, 5}))


def _fitted(text: str) -> str:
    """Cut rows at a terminal's width: the last columns are prose."""
    if sys.stdout is None or not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(
        row if len(row) <= width else row[: max(width - 3, 0)].rstrip() + "..." for row in text.split("\n")
    )


def _cut(text: str) -> str:
    return text if len(text) <= _PROSE else text[: _PROSE - 3].rstrip() + "..."


def _block(one: Overview) -> str:
    notes = one.notes
    facts = [
        ("changes", f"{one.files} files, {one.hunks} hunks, +{one.added} -{one.removed}"),
        ("why", notes.summary),
        *(("", row) for row in (notes.description.split("\n") if notes.description else ())),
        ("author", notes.author),
        ("origin", notes.origin),
        ("forwarded", notes.forwarded),
        ("licence", one.licence + ("" if notes.licence else " (of the series)")),
        ("may go", notes.when_to_drop),
    ]
    return f"{one.place}\n" + table([("  " + key, text) for key, text in facts if key.strip() == "" or text])
