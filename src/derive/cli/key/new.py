# SPDX-License-Identifier: Apache-2.0
"""Make a key for signing; its private half stays in your data folder, its public half is the answer.

Edge: the user's data folder, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, wants_json

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive key new build
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="what you call it: letters, digits, '.', '_' and '-'")


def run(args: argparse.Namespace) -> int:
    """Make it, and print what others need of it."""
    from derive.trust.keyring import user_keyring

    keyring = user_keyring()
    public = keyring.new(args.name).public
    path = keyring.path(args.name)
    if wants_json(args):
        body = {"id": str(public.id), "public": str(public), "path": path_text(path)}
        answer_record("key", args.name, body)
    else:
        answer(str(public))
    note(f"the private key is {path}: keep it to yourself, it has no passphrase")
    note(f'to trust it, write in pyproject.toml:\n\n  [tool.derive.trust.keys]\n  "{args.name}" = "{public}"\n')
    return 0
