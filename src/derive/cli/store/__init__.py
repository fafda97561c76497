# SPDX-License-Identifier: Apache-2.0
"""Ask the store: is it sound, what may go, where its bytes are and whose.

Edge: arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.nested import add_subcommands, run_subcommand

if TYPE_CHECKING:
    import argparse

SUBCOMMANDS = {
    "verify": "check that it holds what it says it holds; mend what can be mended",
    "gc": "remove what no image and no running build needs; say what ability goes with it",
    "du": "say whose its bytes are, by image or by package",
    "path": "print where an output lies",
    "optimise": "make it smaller and lose nothing",
    "export": "write images or derivations with all that they need into one file, signed",
    "import": "bring what such a file holds into the store, when its signature is trusted",
}

EXAMPLES = """\
  derive store verify                  hashes everything
  derive store gc --dry-run            what would go, and what could no longer be done
  derive store du                      bytes by image, shared and its own
  derive store path perftest
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below this one."""
    add_subcommands(parser, __name__, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run the one that the arguments name."""
    return run_subcommand(__name__, args)
