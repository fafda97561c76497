# SPDX-License-Identifier: Apache-2.0
"""Say what moved between two units: tiles, code, registers, memory, instructions; exit 1 when something did.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.colour import wants_colour
from derive.cli.console import answer, answer_record, note, project_of, store_folder, wants_json
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive kernels diff act_quant/quantise/bf16/groups-1/sm_90a .     what was built last, and what is written now
  derive kernels diff act_quant/quantise/bf16/groups-1/sm_90a act_quant/quantise/bf16/groups-1/sm_121a
  derive kernels diff drv:3f1c0d9e2a7b drv:a1b2c3d4e5f6 --all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("first", metavar="A", help="a unit, drv: with digits of one's derivation, a digest, or .")
    parser.add_argument("second", metavar="B", help="likewise; beside . a unit means what was built of it last")
    parser.add_argument("--all", action="store_true", help="print every line and every instruction that moved")
    parser.add_argument("--plain", action="store_true", help="no colour, whatever the terminal")


def run(args: argparse.Namespace) -> int:
    """Compare, and print what moved."""
    from derive.kernels.compare import compare, comparison_body, comparison_lines, unbuilt_words
    from derive.kernels.sides import Sides
    from derive.why.render import render

    with LocalStore(store_folder(args), reading=True) as store:
        found = compare(*Sides(store, lambda: project_of(args)).pair(args.first, args.second))
    if wants_json(args):
        answer_record("kernels-diff", found.after.name, comparison_body(found))
    else:
        answer(render(comparison_lines(found, everything=args.all), colour=wants_colour(args)))
    words = unbuilt_words(found)
    if words:
        note(words)
    return 0 if found.same else 1
