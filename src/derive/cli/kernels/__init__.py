# SPDX-License-Identifier: Apache-2.0
"""List, build, check, compare and measure the kernels that the project has.

Edge: arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.nested import add_subcommands, run_subcommand

if TYPE_CHECKING:
    import argparse

SUBCOMMANDS = {
    "list": "every unit: for which rows, whether it is built, what its machine code needs and holds",
    "build": "compile units ahead of time, for GPUs and for hosts",
    "check": "compile each unit again and compare the bytes; caches, keys and tests besides",
    "diff": "what moved between two units, or between what was built and what is written now",
    "bench": "measure kernels on a GPU, and report",
}

EXAMPLES = """\
  derive kernels list                         every unit of the project
  derive kernels build                        the cache that a host loads kernels from
  derive kernels check --quick                one unit of each kernel and architecture, twice
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below this one."""
    add_subcommands(parser, __name__, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run the one that the arguments name."""
    return run_subcommand(__name__, args)
