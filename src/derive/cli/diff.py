# SPDX-License-Identifier: Apache-2.0
"""Say what moved between two derivations, images, trees, shapes, recipes or sites; exit 1 when something did.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.colour import wants_colour
from derive.cli.console import answer, answer_record, project_of, store_folder, wants_json
from derive.cli.launching import HELP, launching, run_launching
from derive.operands import parse_operand
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

    from derive.operands import Operand
    from derive.why.find import Finder

EXAMPLES = """\
  derive diff probe .                            what was derived last, and what is written now
  derive diff image:probe@linux/amd64 image:probe@linux/arm64
  derive diff sha256:3f1c0d9e2a7b sha256:a1b2c3d4e5f6 --contents
  derive diff release:r1 release:r2              documents, edits, images and shapes
  derive diff shape:tp4-ring shape:tp3-triangle  what nodes are told otherwise
  derive diff launch .                           a rendered folder, and what would be rendered now
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("first", metavar="A", help=HELP)
    parser.add_argument("second", metavar="B", help="likewise; beside . a name means what was derived of it last")
    parser.add_argument("--contents", action="store_true", help="also what moved inside files that are texts")
    parser.add_argument("--all", action="store_true", help="list every package and path; show long values whole")
    parser.add_argument("--plain", action="store_true", help="no colour, whatever the terminal")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="what names are for")
    parser.add_argument("--site", metavar="FILE", help="with a rendered folder and .: the site that . is rendered for")


def run(args: argparse.Namespace) -> int:
    """Compare, and print what moved."""
    told = launching(args.first, args.second)
    if told is not None:
        return run_launching(args, told, why=False)
    from derive.cli.historical import told_of_historical

    historical = told_of_historical(args, args.first, args.second)
    if historical is not None:
        return historical
    from derive.why.compare import compare
    from derive.why.comparison import comparison_body, comparison_lines
    from derive.why.find import Finder
    from derive.why.render import render

    with LocalStore(store_folder(args), reading=True) as store:
        finder = Finder(store, lambda: project_of(args), args.platform)
        operands = [parse_operand(one, args.platform) for one in (args.first, args.second)]
        released = _released(args, finder, store, operands)
        if released is not None:
            return released
        found = compare(finder, *finder.pair(*operands))
        if wants_json(args):
            answer_record("diff", found.after, comparison_body(found))
        else:
            lines = comparison_lines(found, store, everything=args.all, texts=args.contents)
            answer(render(lines, colour=wants_colour(args)))
    return 0 if found.same else 1


def _released(args: argparse.Namespace, finder: Finder, store: LocalStore, operands: list[Operand]) -> int | None:
    """Compare two releases; None where the operands are other things."""
    from derive.why.release_why import release_operands

    sides = release_operands(finder, operands[0], operands[1])
    if sides is None:
        return None
    from derive.why.release_diff import diff_released, release_diff_body, release_diff_lines
    from derive.why.render import render

    found = diff_released(finder, *sides)
    if wants_json(args):
        answer_record("diff-release", found.after.title, release_diff_body(found))
    else:
        lines = release_diff_lines(found, store, everything=args.all, texts=args.contents)
        answer(render(lines, colour=wants_colour(args)))
    return 0 if found.same else 1
