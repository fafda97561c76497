# SPDX-License-Identifier: Apache-2.0
"""Write what people need who do without derive.

Edge: arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.nested import add_subcommands, run_subcommand

if TYPE_CHECKING:
    import argparse

SUBCOMMANDS = {"dockerfile": "write an image as a Dockerfile with its layers, which docker buildx builds"}

EXAMPLES = """\
  derive export dockerfile probe --to probe-dockerfile
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below this one."""
    add_subcommands(parser, __name__, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run the one that the arguments name."""
    return run_subcommand(__name__, args)
