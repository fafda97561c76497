# SPDX-License-Identifier: Apache-2.0
"""The records of releases: show and check their chain, add to it, lay a release out as a project.

Edge: arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.nested import add_subcommands, run_subcommand

if TYPE_CHECKING:
    import argparse

SUBCOMMANDS = {
    "show": "print what the records say of a release, or one record by its number",
    "verify": "check that every record and document is as it was written",
    "checkout": "write the content of a release into a folder that is a project",
    "add": "add a record of an experiment, of what runs, or of a release that is retired",
    "renumber": "put records after all others, whose numbers another branch has taken",
    "report": "write the history of all releases as one page",
}

EXAMPLES = """\
  derive records show probe-1
  derive records verify
  derive records checkout probe-1 --output then
  derive records add retired probe-1 --shape ring4 --why "a node hung"
  derive records report --output releases.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below this one."""
    add_subcommands(parser, __name__, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run the one that the arguments name."""
    return run_subcommand(__name__, args)
