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

    key = user_keyring().new(args.name)
    if wants_json(args):
        body = {"id": str(key.public.id), "public": str(key.public), "path": path_text(key.path)}
        answer_record("key", key.name, body)
    else:
        answer(str(key.public))
    note(f"the private key is {key.path}: keep it to yourself, it has no passphrase")
    note(f'to trust it, write in pyproject.toml:\n\n  [tool.derive.trust.keys]\n  "{key.name}" = "{key.public}"\n')
    return 0
