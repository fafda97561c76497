# SPDX-License-Identifier: Apache-2.0
"""Print a completion script for a shell.

Edge: standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive completion bash > ~/.local/share/bash-completion/completions/derive
  derive completion zsh > ~/.zfunc/_derive
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from derive.cli.main import make_parser

    answer(shtab.complete(make_parser(None), shell=args.shell))
    return 0
