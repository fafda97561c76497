# SPDX-License-Identifier: Apache-2.0
"""Print a completion script for a shell.

Edge: standard streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, wants_json

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

    parser = make_parser(None)
    _complete_paths(parser, {"DIR": shtab.DIRECTORY, "FOLDER": shtab.DIRECTORY, "PATH": shtab.FILE})
    script = shtab.complete(parser, shell=args.shell)
    if wants_json(args):
        answer_record("completion", args.shell, {"script": script})
    else:
        answer(script)
    return 0


def _complete_paths(parser: argparse.ArgumentParser, kinds: Mapping[str, object]) -> None:
    """Say of arguments that are paths by their names that they are."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to ask for them
        kind = kinds.get(str(action.metavar))
        if kind is not None:
            action.complete = kind  # type: ignore[attr-defined]
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                _complete_paths(command, kinds)
