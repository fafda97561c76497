# SPDX-License-Identifier: Apache-2.0
"""Outputs that machines share by a registry: name caches, push what was built here, see what others vouch for.

Edge: arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.nested import add_subcommands, run_subcommand

if TYPE_CHECKING:
    import argparse

SUBCOMMANDS = {
    "add": "name a repository of a registry as a cache, for you on this machine",
    "remove": "take a cache away, and forget all that it said",
    "push": "push what was built here, and sign for it",
    "pull": "read what is new in the logs of trusted keys; with a target, bring its outputs",
    "status": "say who vouches for what, which views cannot be right, and what would be taken",
}

EXAMPLES = """\
  derive cache add http://127.0.0.1:5000/team/cache
  derive cache push --key ann                 what was built here of the project's default image
  derive cache status probe                   and what of an image would be taken from elsewhere
  derive image                                takes what enough trusted keys vouch for
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below this one."""
    add_subcommands(parser, __name__, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run the one that the arguments name."""
    return run_subcommand(__name__, args)
