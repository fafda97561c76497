# SPDX-License-Identifier: Apache-2.0
"""The site: its machines and cables, in a file of the user's that lies outside every project.

Edge: arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.nested import add_subcommands, run_subcommand

if TYPE_CHECKING:
    import argparse

SUBCOMMANDS = {
    "init": "write the site file, from names and addresses or from the facts of the machines",
    "show": "print the site's nodes, cables and shapes",
    "check": "judge the site file, by itself and against the facts of the machines",
    "facts": "print what this machine says of its network",
    "shape": "pick the shape of a recipe that this site runs",
}

EXAMPLES = """\
  derive site init --nodes dgx1=192.0.2.11 dgx2=192.0.2.12 dgx3=192.0.2.13
  derive site facts > dgx1.json                          on each machine
  derive site init --facts dgx1.json dgx2.json dgx3.json
  derive site check --facts dgx1.json dgx2.json dgx3.json
  derive site shape tp3-triangle --apply
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below this one."""
    add_subcommands(parser, __name__, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run the one that the arguments name."""
    return run_subcommand(__name__, args)
