# SPDX-License-Identifier: Apache-2.0
"""Find the smallest set of edits between two states of a project that flips the verdict of a command.

Edge: the projects' files, the store, the command's process, standard streams.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, store_folder, wants_json
from derive.cli.options import something
from derive.cli.running import options_of
from derive.errors import InputErrors, Interrupted
from derive.store.local import LocalStore

if TYPE_CHECKING:
    from derive.bisect.model import Answer, Ran
    from derive.bisect.run import Bisection

EXAMPLES = """\
  derive bisect release:r1 release:r2 -- ./smoke.sh
  derive bisect r1 . --dry-run                        the edits, which go together, and what each would cost
  derive bisect ../before . --max-runs 20 --timeout 600 -- python3 judge.py
"""

_LONGEST_S = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.usage = "%(prog)s [options] A B -- COMMAND ..."
    parser.add_argument("before", type=something, metavar="A", help="a release, a project's folder, or .")
    parser.add_argument(
        "after", type=something, metavar="B", help="likewise; the command ends with 0 for what is like A"
    )
    image = "which image is derived (default: a release's own)"
    parser.add_argument("--image", type=something, metavar="NAME", help=image)
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    parser.add_argument("--dry-run", action="store_true", help="say what would be tried, and run nothing")
    parser.add_argument("--max-runs", type=_runs, metavar="N", help="run the command so often at most")
    parser.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="end the command after so long: it cannot be judged then"
    )
    parser.add_argument("--offline", action="store_true", help="fetch nothing")


def _runs(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"not a whole number above 1: {text!r}")
    return int(text)


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"not a whole number of seconds from 1 to {_LONGEST_S}: {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Search, and print the edits; where it was stopped, what is known then."""
    from derive.bisect.compositions import Compositions
    from derive.bisect.model import run_line
    from derive.bisect.run import Bisection
    from derive.bisect.sides import default_image, read_state

    if not args.words and not args.dry_run:
        raise InputErrors.one("no command to judge by", hint="give one: derive bisect A B -- COMMAND")
    with LocalStore(store_folder(args)) as store:
        states = [read_state(text, lambda: project_root(args), store.root) for text in (args.before, args.after)]
        image = args.image or default_image(states[0], states[1])
        options = options_of(args)
        found = Compositions((states[0], states[1]), store, options, image, args.platform)

        def say(number: int, ran: Ran, remaining: int) -> None:
            note(run_line(number, ran, len(found.edits), remaining))

        bisection = Bisection(found, store, tuple(args.words), image, args.max_runs, say, args.timeout)
        return _planned(args, bisection) if args.dry_run else _searched(args, bisection)


def _planned(args: argparse.Namespace, bisection: Bisection) -> int:
    from derive.bisect.model import unit_lines, units_body

    units, titles = bisection.units(), (bisection.compositions.before.title, bisection.compositions.after.title)
    if wants_json(args):
        answer_record("bisect-plan", bisection.image, units_body(*titles, units))
    else:
        answer("\n".join(unit_lines(units)))
    return 0


def _searched(args: argparse.Namespace, bisection: Bisection) -> int:
    try:
        found = bisection.run()
    except KeyboardInterrupt:
        _answer(args, bisection.answer(whole=False))
        hint = "run the same command again: what was judged is known, and the search goes on from there"
        raise Interrupted("interrupted", hint=hint) from None
    _answer(args, found)
    if not found.whole:
        note(f"stopped after {found.runs} runs: run the same command again to go on")
    return 0 if found.whole else 3


def _answer(args: argparse.Namespace, found: Answer) -> None:
    from derive.bisect.model import answer_body, answer_lines

    if wants_json(args):
        answer_record("bisect", found.image, answer_body(found))
    else:
        answer("\n".join(answer_lines(found)))
