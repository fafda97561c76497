# SPDX-License-Identifier: Apache-2.0
"""Check a project before anything is built or launched: recipes, fabric, sources, site, secrets; exit 1 at a finding.

Edge: the project, the site's file, git, standard streams. Nothing is written, and no network is used.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, terminal_width, wants_json
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

EXAMPLES = """\
  derive doctor                          every recipe, with the site's file that is found
  derive doctor --recipe probe           that recipe's shapes alone, and the project
  derive doctor --site lab.toml --json
  derive doctor why guard.floors         why there is this check, how it is judged, and what to do
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from derive.cli.options import something

    parser.add_argument("question", nargs="*", metavar="why CHECK", help="explain one check, and judge nothing")
    parser.add_argument("--recipe", type=something, metavar="NAME", help="look at this recipe alone (default: at all)")
    parser.add_argument(
        "--site", type=something, metavar="FILE", help="the site's file (default: as docs/fabric.md says)"
    )
    parser.add_argument("--plain", action="store_true", help="no colour, whatever the terminal")


def run(args: argparse.Namespace) -> int:
    """Judge everything, or explain one check."""
    if args.question:
        return _why(args)
    from derive.cli.colour import wants_colour
    from derive.doctor.case import case_of
    from derive.doctor.facts import gather
    from derive.doctor.judge import judge
    from derive.doctor.show import body, finding_lines, summary, table_lines
    from derive.doctor.table import CHECKS
    from derive.recipes.load import recipe_names
    from derive.why.render import render
    from derive.words import near

    facts = gather(project_root(args), site=_site(args), recipe=args.recipe)
    names = recipe_names(facts.launching)
    if args.recipe is not None and args.recipe not in names:
        hint = near(args.recipe, names) or f"there is {', '.join(names) or 'none'}"
        raise InputErrors.one(f"no recipe is called {args.recipe!r}", where="recipes/", hint=hint)
    found = judge(case_of(facts), CHECKS)
    if wants_json(args):
        answer_record("doctor", args.recipe or "project", body(found))
    else:
        lines = [*table_lines(found, terminal_width(sys.stdout)), *finding_lines(found)]
        answer(render(lines, colour=wants_colour(args)))
    note(summary(found))
    return int(any(one.blocks for one in found))


def _site(args: argparse.Namespace) -> Path | None:
    """Return the site's file; one that was named and is not there is a slip of the hand, and no fact."""
    from derive.fabric.places import find_site

    found = find_site(os.environ, args.site)
    if args.site is not None and found is not None and not found.exists():
        raise InputErrors.one("no such file", where=args.site, hint="write one: derive site init")
    return found


def _why(args: argparse.Namespace) -> int:
    from derive.cli.colour import wants_colour
    from derive.doctor.show import why_body, why_lines
    from derive.doctor.table import check_named
    from derive.why.render import render

    if args.question[0] != "why" or len(args.question) != 2:
        hint = "as in: derive doctor why guard.floors; derive doctor lists all checks"
        if args.question == ["why"]:
            raise InputErrors.one("name a check", hint=hint)
        raise InputErrors.one(f"no such question: {' '.join(args.question)!r}", hint=hint)
    check = check_named(args.question[1])
    if wants_json(args):
        answer_record("doctor-why", check.id, why_body(check))
    else:
        answer(render(why_lines(check), colour=wants_colour(args)))
    return 0
