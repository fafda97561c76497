# SPDX-License-Identifier: Apache-2.0
"""Keys that sign what leaves a store: make one, list them, show one, replace one, and stop taking one's word.

Edge: arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.nested import add_subcommands, run_subcommand

if TYPE_CHECKING:
    import argparse

SUBCOMMANDS = {
    "new": "make a key, and print its public half",
    "list": "list your keys and those that the project trusts",
    "show": "print a key's public half, as it stands in pyproject.toml",
    "rotate": "put another key in a key's place, in the project's records: both sign that",
    "revoke": "take a key's word no more: for this user, and with --record for everybody who has the project",
}

EXAMPLES = """\
  derive key new build                 a private key for you alone; its public half for pyproject.toml
  derive key list
  derive key rotate build build-2027   from now on it is build-2027 that signs for build
  derive key revoke build --record --why "the disk was stolen" --since 2026-11-20
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below this one."""
    add_subcommands(parser, __name__, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run the one that the arguments name."""
    return run_subcommand(__name__, args)
