# SPDX-License-Identifier: Apache-2.0
"""Promote a release for a shape: only with all that is asked of it; writes one record, and says how to commit it.

Edge: the store, the project and its records, the site's file, the clock, standard streams.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from derive.cli.console import (
    answer,
    answer_record,
    note,
    print_error,
    project_root,
    store_folder,
    wants_json,
)
from derive.cli.options import line, something
from derive.cli.running import options_of
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse

    from derive.promotion.gather import Asked
    from derive.promotion.part import NotPromoted
    from derive.promotion.service import Promotion

EXAMPLES = """\
  derive promote probe-1 --shape ring4 --check
  derive promote ds41f-3 --shape tp4-ring --certified --need 2 --facts dgx*.json --evidence records/benchmarks/tp4.json
  derive promote ds41f-3 --shape tp3-triangle --check --waive "no third machine yet" --expires 2027-01-31
  derive promote ds41f-3 --shape tp3-triangle --clear-waiver --evidence records/benchmarks/tp3.json
"""

_HOUR_S = 3600
_DAY_H = 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("release", type=something, metavar="NAME", help="a release: its name or digest")
    parser.add_argument("--shape", type=something, required=True, metavar="SHAPE", help="the shape that it is for")
    proof = parser.add_mutually_exclusive_group()
    proof.add_argument("--check", action="store_true", help="derive the image here, every step twice")
    proof.add_argument("--certified", action="store_true", help="take the word of builders: derive certify")
    parser.add_argument("--need", type=_positive, metavar="K", help="with --certified: of so many (default: threshold)")
    parser.add_argument(
        "--facts", nargs="+", action="extend", default=[], metavar="FILE", help="what derive site facts printed, each"
    )
    parser.add_argument(
        "--facts-age",
        type=_positive,
        default=_DAY_H,
        metavar="HOURS",
        help="how old they may be (default: %(default)s)",
    )
    parser.add_argument(
        "--site", type=something, metavar="FILE", help="the site's file (default: as docs/fabric.md says)"
    )
    parser.add_argument(
        "--evidence", nargs="+", action="extend", default=[], metavar="FILE", help="reports below records/"
    )
    parser.add_argument("--waive", type=line, metavar="REASON", help="why there is no evidence")
    parser.add_argument("--expires", type=something, metavar="DATE", help="the last day of the waiver: YYYY-MM-DD")
    parser.add_argument(
        "--clear-waiver", action="store_true", help="put evidence in the place of the waiver that stands"
    )
    parser.add_argument("--why", type=line, metavar="TEXT", help="what speaks for it, for the record")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")
    parser.add_argument("--dry-run", action="store_true", help="judge, and write nothing")


def run(args: argparse.Namespace) -> int:
    """Judge; write the record, or say everything that is missing."""
    from derive.promotion.part import NotPromoted

    _require_sense(args)
    try:
        found = _judged(args, _asked(args))
    except NotPromoted as error:
        return _refused(args, error)
    return _written(args, found)


def _require_sense(args: argparse.Namespace) -> None:
    if args.need is not None and not args.certified:
        raise InputErrors.one("--need counts builders", hint="say --certified, or leave it out")
    if args.clear_waiver and (args.check or args.certified or args.waive or args.expires or args.facts):
        hint = "give --evidence, and leave out --check, --certified, --facts, --waive and --expires"
        raise InputErrors.one("--clear-waiver looks at evidence alone", hint=hint)
    if args.clear_waiver and not args.evidence:
        raise InputErrors.one("a waiver is cleared by evidence", hint="name it: --evidence records/FILE")


def _asked(args: argparse.Namespace) -> Asked:
    from derive.promotion.evidence import read_waiver
    from derive.promotion.gather import Asked
    from derive.records.who import who

    root, now_s = project_root(args), int(time.time())
    return Asked(
        root=root,
        store=store_folder(args),
        name=args.release,
        shape=args.shape,
        proof="check" if args.check else "certified" if args.certified else None,
        facts=args.facts,
        longest_s=args.facts_age * _HOUR_S,
        evidence=args.evidence,
        waiver=read_waiver(args.shape, args.waive, args.expires, now_s),
        why=args.why,
        by=who(root),
        now_s=now_s,
        site=args.site,
        need=args.need,
    )


def _judged(args: argparse.Namespace, asked: Asked) -> Promotion:
    from derive.cli.progress import progress_for_stderr

    if args.clear_waiver:
        from derive.promotion.clear import clear_waiver

        return clear_waiver(asked)
    from derive.promotion.service import promote

    return promote(asked, options_of(args), progress_for_stderr())


def _written(args: argparse.Namespace, found: Promotion) -> int:
    root, path = project_root(args), None
    if not args.dry_run:
        from derive.promotion.service import write_promotion

        path = write_promotion(root, found)
    shown = None if path is None else str(path.relative_to(root))
    if wants_json(args):
        record = found.body if found.standing is None else found.standing.record.body
        answer_record("promote", found.known.name, {"file": shown, "missing": [], "record": record})
    else:
        answer(shown or f"{found.known.name} may be promoted for {args.shape}")
    for text in found.unchecked:
        note(f"not checked: {text}")
    for text in found.unnamed:
        note(f"not named: {text}")
    if found.standing is not None:
        note(f"it is promoted already, and nothing moved since: nothing is written beside {found.standing.where}")
    elif shown is None:
        note("nothing was written: that is what --dry-run asks")
    else:
        note(f"commit it: git add records && git commit -m 'Promote {found.known.name} for {args.shape}'")
    return 0


def _refused(args: argparse.Namespace, error: NotPromoted) -> int:
    if wants_json(args):
        missing = [
            {"where": one.where, "message": one.message, "detail": list(one.detail), "hint": one.hint}
            for one in error.problems()
        ]
        answer_record("promote", args.release, {"file": None, "missing": missing, "record": None})
    print_error(error)
    if len(error.problems()) == 1:
        note(f"error: {error.message}")
    return error.exit_code


def _positive(text: str) -> int:
    import argparse

    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a whole number above 0: {text!r}")
    return int(text)
