# SPDX-License-Identifier: Apache-2.0
"""Print the public half of one of your keys, as it stands in pyproject.toml.

Edge: the user's data folder, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, wants_json

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive key show build
  derive key show build --json         with its id
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="one of your keys: derive key list")


def run(args: argparse.Namespace) -> int:
    """Print it; that it is revoked is said beside it."""
    from derive.trust.keyring import user_keyring

    keyring = user_keyring()
    public = keyring.signing_key(args.name).public
    revoked = public.id in keyring.revoked()
    if wants_json(args):
        answer_record("key", args.name, {"id": str(public.id), "public": str(public), "revoked": revoked})
    else:
        answer(str(public))
    if revoked:
        note(f"{args.name} is revoked")
    return 0
