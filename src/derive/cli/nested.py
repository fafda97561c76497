# SPDX-License-Identifier: Apache-2.0
"""Commands of commands: ``derive store verify`` is the module ``derive.cli.store.verify``.

Edge: arguments. Only the module of the command at hand is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from derive.cli.options import common_options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


def add_subcommands(parser: argparse.ArgumentParser, package: str, commands: Mapping[str, str]) -> None:
    """Declare each command of a package, which has a module of that name, ``-`` written ``_``, with a line of help."""
    import argparse

    common = common_options()
    nested = parser.add_subparsers(dest="subcommand", metavar="COMMAND", title="commands", required=True)
    for name, text in commands.items():
        module = import_module(f"{package}.{name.replace('-', '_')}")
        command = nested.add_parser(
            name,
            help=text,
            description=(module.__doc__ or "").split("\n", 1)[0],
            epilog=f"examples:\n{module.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[common],
            allow_abbrev=False,
        )
        module.add_arguments(command)


def run_subcommand(package: str, args: argparse.Namespace) -> int:
    """Run the command that the arguments name."""
    return int(import_module(f"{package}.{args.subcommand.replace('-', '_')}").run(args))
