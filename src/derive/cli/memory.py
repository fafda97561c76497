# SPDX-License-Identifier: Apache-2.0
"""Predict what a shape takes of each rank's memory, line by line, and say whether it fits; exit 1 when it does not.

Edge: the project, a checkpoint at hand, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, print_error, project_root, table, wants_json
from derive.errors import CheckFailed, InputErrors

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from derive.memory.facts import Facts
    from derive.memory.ledger import Ledger
    from derive.recipes.load import Recipe
    from derive.recipes.resolved import Resolved

EXAMPLES = """\
  derive memory                             the default shape of the one recipe that says what memory there is
  derive memory --shape tp3-triangle --json
  derive memory --all                       all shapes side by side
  derive memory --index /models/snapshots/<revision>    shapes read from that checkpoint's headers
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from derive.cli.options import something

    which = parser.add_mutually_exclusive_group()
    which.add_argument("--shape", type=something, metavar="S", help="which shape (default: the recipe's default)")
    which.add_argument("--all", action="store_true", help="all shapes of the recipe, side by side")
    parser.add_argument("--recipe", type=something, metavar="R", help="which recipe (default: the one with [memory])")
    parser.add_argument(
        "--index",
        type=something,
        metavar="FILE",
        help="a checkpoint's model.safetensors.index.json, or its folder: shapes are read from the files beside it",
    )


def run(args: argparse.Namespace) -> int:
    """Predict, print the ledgers, and say what does not fit."""
    from derive.memory.ledger import facts_of, ledger, problems
    from derive.memory.show import body, remarks
    from derive.project import load_launching

    files = load_launching(project_root(args))
    shapes = _shapes(args, files)
    facts = facts_of(shapes[0], files)
    if args.index is not None:
        facts = _with_checkpoint(facts, args.index)
    found = [ledger(shape, facts) for shape in shapes]
    if wants_json(args):
        subject = found[0].recipe if args.all else f"{found[0].recipe}/{found[0].shape}"
        answer_record("memory", subject, {"ledgers": [body(one) for one in found]})
    else:
        answer(_together(found) if args.all else _alone(found[0]))
    for remark in dict.fromkeys(remark for one in found for remark in remarks(one)):
        note(remark)
    wrong = [problem for one in found for problem in problems(one)]
    for one in wrong:
        print_error(CheckFailed(one.message, where=one.where, detail=one.detail, hint=one.hint))
    return int(bool(wrong))


def _shapes(args: argparse.Namespace, files: Mapping[str, bytes]) -> Sequence[Resolved]:
    """Return the shapes that are asked for, of the recipe that is; all of them have a ``[memory]``."""
    from derive.recipes.load import recipe_names
    from derive.recipes.resolve import resolve

    names = (args.recipe,) if args.recipe is not None else recipe_names(files)
    recipes = _recipes(files, names)
    telling = [recipe for recipe in recipes if resolve(recipe).memory]
    if not telling:
        hint = "write a [memory] table: docs/memory.md"
        where = recipes[0].file if len(recipes) == 1 else ""
        raise InputErrors.one("no [memory] table, and so nothing to predict", where=where, hint=hint)
    if len(telling) > 1:
        message = f"several recipes say what memory there is: {', '.join(one.name for one in telling)}"
        raise InputErrors.one(message, hint=f"name one: --recipe {telling[0].name}")
    wanted = tuple(telling[0].shapes) if args.all else (args.shape,)
    return [resolve(telling[0], name) for name in wanted]


def _recipes(files: Mapping[str, bytes], names: Sequence[str]) -> Sequence[Recipe]:
    """Read recipes; what is wrong with facts is told with what is wrong with them."""
    from derive.memory.load import facts_problems
    from derive.recipes.load import read_recipe

    read = [read_recipe(files, name) for name in names]
    wrong = [problem for _, problems in read for problem in problems]
    if wrong:
        raise InputErrors([*wrong, *facts_problems(files)])
    return [recipe for recipe, _ in read if recipe is not None]


def _with_checkpoint(facts: Facts, place: str) -> Facts:
    """Read a checkpoint's headers in place of the table's shapes, and say what does not agree."""
    from pathlib import Path

    from derive.memory.checkpoint import agreement, with_checkpoint
    from derive.memory.shards import read_checkpoint

    read = read_checkpoint(Path(place))
    for line in agreement(facts, read.index, read.entries):
        note(line)
    return facts if read.entries is None else with_checkpoint(facts, read.entries).facts


def _alone(found: Ledger) -> str:
    from derive.memory.show import held_rows, ledger_rows, sentences

    parts = [
        f"{found.recipe} {found.shape}: one of {found.conditions.ranks} ranks",
        table(ledger_rows(found), right=frozenset({1, 2})),
        "\n".join(sentences(found)),
        table(held_rows(found.held), right=frozenset({2, 3, 4})),
    ]
    return "\n\n".join(parts)


def _together(found: Sequence[Ledger]) -> str:
    from derive.memory.show import side_by_side

    rows = side_by_side(found)
    return table(rows, right=frozenset(range(1, len(rows[0]))))
