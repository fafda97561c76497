# SPDX-License-Identifier: Apache-2.0
"""Draw the cabling of a site, and plan what collectives move over it.

Edge: arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.nested import add_subcommands, run_subcommand

if TYPE_CHECKING:
    import argparse

SUBCOMMANDS = {
    "show": "draw machines, cages, cables and their paths, here or as a picture",
    "plan": "what each collective moves over which link, which link limits, and how long it may take",
}

EXAMPLES = """\
  derive fabric show                          the site, or an example where there is none
  derive fabric plan --transport oneshot-ring4
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below this one."""
    add_subcommands(parser, __name__, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run the one that the arguments name."""
    return run_subcommand(__name__, args)
