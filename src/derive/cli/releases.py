# SPDX-License-Identifier: Apache-2.0
"""List the shapes of releases that may be deployed, by the policy for production; or all, and why not.

Edge: the project's records, git, the clock, standard streams.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, table, wants_json
from derive.cli.options import something
from derive.words import count_text

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from derive.errors import Problem
    from derive.records.chain import Chain
    from derive.releases.listing import Against
    from derive.releases.state import Row

EXAMPLES = """\
  derive releases
  derive releases --shape tp4-ring
  derive releases --published origin/main  only what others have, too
  derive releases --all                    candidates, retired and historical ones, too, and why not
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--all", action="store_true", help="also what may not be deployed, and why not")
    parser.add_argument("--shape", type=something, metavar="NAME", help="one shape alone")
    purpose = parser.add_mutually_exclusive_group()
    purpose.add_argument(
        "--published", type=_branch, metavar="REMOTE/BRANCH", help="only what lies on it (default: as the project says)"
    )
    purpose.add_argument("--experiment", action="store_true", help="what an experiment may deploy: any release")


def run(args: argparse.Namespace) -> int:
    """Read the records, answer with the table."""
    from derive.project import published_branch
    from derive.records.folder import files_below, sound
    from derive.releases.find import known_of
    from derive.releases.listing import document_of, rows_of, table_of

    root, now = project_root(args), int(time.time())
    files = files_below(root)
    chain = sound(files)
    branch = None if args.experiment else args.published or published_branch(root)
    known = {one.record.subject: known_of(one, files) for one in chain.entries if one.record.kind == "candidate"}
    against = _policy(root, chain, now, branch, experiment=args.experiment)
    found = rows_of(chain, {name: one.release for name, one in known.items()}, against)
    _require_shape(args.shape, {row.shape for row in found if row.shape})
    every = [row for row in found if args.shape in (None, row.shape)]
    rows = [row for row in every if args.all or not row.problems]
    if wants_json(args):
        purpose = "experiment" if args.experiment else "production"
        body = {"purpose": purpose, "published_branch": branch, **document_of(rows, chain.head, now)}
        answer_record("releases", "deployable" if not args.all else "all", body)
        return 0
    nothing = "nothing may be deployed: no shape of a release is promoted, with nothing against it"
    answer(table(table_of(rows, now, reasons=args.all)) if rows else nothing)
    if not args.all:
        _tell_left_out([row for row in every if row.problems])
    if branch is None and not args.experiment and any(row.state == "promoted" for row in rows):
        note("whether they are published was not asked: name the branch, --published origin/main")
    return 0


def _require_shape(shape: str | None, known: set[str]) -> None:
    if shape is not None and shape not in known:
        from derive.errors import InputErrors
        from derive.words import near

        there = f"there is {', '.join(sorted(known))}" if known else "make one: derive release NAME --recipe R"
        raise InputErrors.one(f"no release has a shape {shape!r}", where="--shape", hint=near(shape, known) or there)


def _policy(root: Path, chain: Chain, now_s: int, branch: str | None, *, experiment: bool) -> Against:
    from derive.releases.policy import may_deploy
    from derive.releases.published import published

    def against(release: str, shape: str) -> list[Problem]:
        if experiment:
            return may_deploy(chain, release, shape, "experiment", now_s=now_s, published=None)
        there = True if branch is None else published(root, chain, release, shape, branch)
        return may_deploy(chain, release, shape, now_s=now_s, published=there)

    return against


def _tell_left_out(rows: list[Row]) -> None:
    """Say how much may not be deployed; of what is promoted, and held up all the same, each reason."""
    from derive.releases.listing import why_not

    for row in rows:
        if row.state == "promoted":
            note(f"{row.release} for {row.shape} is promoted, and may not be deployed: {why_not(row)}")
    shapes = sum(row.state != "historical" for row in rows)
    told = (count_text(shapes, "shape of a release", "shapes of releases"), f"{len(rows) - shapes} historical")
    left = " and ".join(text for text, count in zip(told, (shapes, len(rows) - shapes), strict=True) if count)
    if rows:
        note(f"not listed, and not to be deployed: {left}: derive releases --all")


def _branch(text: str) -> str:
    import argparse

    from derive.project import is_remote_branch

    if not is_remote_branch(text):
        raise argparse.ArgumentTypeError(f"not a branch of a remote, as origin/main: {text!r}")
    return text
