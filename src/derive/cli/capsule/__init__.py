# SPDX-License-Identifier: Apache-2.0
"""Pack a release with everything that it derives from; say how much of one could be derived today; use a capsule.

Edge: arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.nested import add_subcommands, run_subcommand

if TYPE_CHECKING:
    import argparse

SUBCOMMANDS = {
    "create": "write everything from which a release derives into one folder or file",
    "verify": "check a capsule, or say how much of a release could be derived today, and from where",
    "use": "have a capsule serve what is fetched: for one command, or from now on",
}

EXAMPLES = """\
  derive capsule create probe-1 --output probe-1.tar
  derive capsule verify probe-1.tar
  derive capsule verify probe-1 --capsule probe-1.tar
  derive capsule use probe-1.tar -- derive image probe --offline
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below this one."""
    add_subcommands(parser, __name__, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run the one that the arguments name."""
    return run_subcommand(__name__, args)
