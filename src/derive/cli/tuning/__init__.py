# SPDX-License-Identifier: Apache-2.0
"""Tuning profiles: what of NCCL and of small collectives is set otherwise than by default, for a number of nodes.

Edge: arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.nested import add_subcommands, run_subcommand

if TYPE_CHECKING:
    import argparse

SUBCOMMANDS = {
    "show": "print a profile: each setting, its value, what it is by default, what it means",
    "create": "write a new profile from another and from settings that differ",
}

EXAMPLES = """\
  derive tuning show                         what profiles there are
  derive tuning show tp4
  derive tuning create tp4-small --from tp4 NCCL_BUFFSIZE=1048576
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below this one."""
    add_subcommands(parser, __name__, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run the one that the arguments name."""
    return run_subcommand(__name__, args)
