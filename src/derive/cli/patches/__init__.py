# SPDX-License-Identifier: Apache-2.0
"""Read, judge and change the patches that the project carries.

Edge: arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.nested import add_subcommands, run_subcommand

if TYPE_CHECKING:
    import argparse

SUBCOMMANDS = {
    "list": "every patch: what it changes, why, whence, under which licence, when it may go",
    "status": "what each patch still does to the source that is locked, or to another",
    "edit": "open a series as commits in a work tree",
    "refresh": "make the series again from the work tree's commits",
    "new": "add the difference between the patched source and a folder as a patch",
    "import": "add the patches of a mailbox to a series",
    "export": "write a series as a mailbox and a branch to send upstream",
    "rebase": "carry a series over to another version of its source",
}

EXAMPLES = """\
  derive patches list                         every series of the project
  derive patches status perftest              what each patch still does
  derive patches edit perftest                a work tree with the series as commits
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below this one."""
    add_subcommands(parser, __name__, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run the one that the arguments name."""
    return run_subcommand(__name__, args)
