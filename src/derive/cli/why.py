# SPDX-License-Identifier: Apache-2.0
"""Say why something was built, why one thing needs another, or why one became another.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.colour import wants_colour
from derive.cli.console import answer, answer_record, note, project_of, store_folder, wants_json
from derive.cli.launching import HELP, launching, run_launching
from derive.errors import InputErrors
from derive.operands import parse_operand
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from derive.why.find import Finder
    from derive.why.render import Line

EXAMPLES = """\
  derive why perftest                  why it was built last, or would be now: root causes
  derive why drv:3f1c0d9e2a7b          the same, of a derivation that the store knows
  derive why bash --in probe           the shortest path by which the image needs the package
  derive why /usr/bin/mawk --in probe  where a file of the image comes from
  derive why perftest .                why what was derived last would become what is written now
  derive why drv:3f1c0d9e2a7b drv:a1b2c3d4e5f6
  derive why release:r1 release:r2     each thing that changed, with the bytes it moved, and the shapes
  derive why release:r1 .
  derive why shape:tp4-ring shape:tp3-triangle   which key or rule caused each difference
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("operand", metavar="X", help=HELP)
    parser.add_argument("other", nargs="?", metavar="Y", help="why X became Y")
    parser.add_argument(
        "--in", dest="inside", metavar="Y", help="why X is needed by Y; X may also be a package or file"
    )
    parser.add_argument("--all", action="store_true", help="with --in: every direct user; of releases: paths")
    parser.add_argument("--plain", action="store_true", help="no colour, whatever the terminal")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="what names are for")
    parser.add_argument("--site", metavar="FILE", help="with a rendered folder and .: the site that . is rendered for")


def run(args: argparse.Namespace) -> int:
    """Answer one of the three questions."""
    from derive.why.find import Finder

    if args.other is not None and args.inside is not None:
        raise InputErrors.one("two questions at once", hint="why X --in Y, or why X Y")
    told = None if args.other is None else launching(args.operand, args.other)
    if told is not None:
        return run_launching(args, told, why=True)
    historical = None if args.other is None else _historical(args)
    if historical is not None:
        return historical
    with LocalStore(store_folder(args), reading=True) as store:
        finder = Finder(store, lambda: project_of(args), args.platform)
        released = None if args.other is None else _released(args, finder)
        if released is not None:
            return released
        if args.all and args.inside is None:
            raise InputErrors.one("--all lists what uses X directly, and needs --in", hint="why X --in Y --all")
        if args.inside is not None:
            return _needed(args, finder)
        return _built(args, finder) if args.other is None else _became(args, finder)


def _historical(args: argparse.Namespace) -> int | None:
    """Print what was written down of two releases of which one is historical: no cause of it can be known."""
    from derive.cli.historical import told_of_historical

    return told_of_historical(args, args.operand, args.other)


def _built(args: argparse.Namespace, finder: Finder) -> int:
    from derive.why.explain import why_built

    found = why_built(finder, finder.current(parse_operand(args.operand, args.platform)))
    if wants_json(args):
        from derive.why.documents import explanation_body

        answer_record("why", found.node.title, explanation_body(found))
    else:
        from derive.why.answers import explanation_lines

        _print(args, explanation_lines(found))
    return 0


def _became(args: argparse.Namespace, finder: Finder) -> int:
    from derive.why.answers import became_lines
    from derive.why.documents import became_body
    from derive.why.explain import why_became

    found = why_became(
        finder, *finder.derivations(*(parse_operand(one, args.platform) for one in (args.operand, args.other)))
    )
    if wants_json(args):
        answer_record("why", found.after.title, became_body(found))
    else:
        _print(args, became_lines(found))
    return 1 if found.moved is not None and found.moved.causeless else 0


def _released(args: argparse.Namespace, finder: Finder) -> int | None:
    """Say why one release became another; None where the operands are other things. Exit 1: bytes without a cause."""
    from derive.why.release_why import release_body, release_lines, release_operands, why_released

    operands = [parse_operand(one, args.platform) for one in (args.operand, args.other)]
    sides = release_operands(finder, operands[0], operands[1])
    if sides is None:
        return None
    found = why_released(finder, *sides)
    if wants_json(args):
        answer_record("why-release", found.after.title, release_body(found))
    else:
        _print(args, release_lines(found, everything=args.all))
    return 1 if found.causeless else 0


def _needed(args: argparse.Namespace, finder: Finder) -> int:
    from derive.why.answers import paths_lines
    from derive.why.documents import paths_body
    from derive.why.needs import why_needed
    from derive.why.render import printable

    found = why_needed(finder, args.operand, parse_operand(args.inside, args.platform), everything=args.all)
    if wants_json(args):
        answer_record("why-in", printable(args.operand), paths_body(found.paths))
    elif found.paths:
        _print(args, paths_lines(found.paths, everything=args.all))
    if not found.paths:
        note(found.reason)
    return 0 if found.paths else 1


def _print(args: argparse.Namespace, lines: Iterable[Line]) -> None:
    from derive.why.render import render

    answer(render(lines, colour=wants_colour(args)))
