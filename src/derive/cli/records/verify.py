# SPDX-License-Identifier: Apache-2.0
"""Check that every record and document is as it was written: against the chain's own digests, and against git.

Edge: the project's records, git, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, wants_json
from derive.cli.options import something
from derive.errors import Problem, expected_got
from derive.words import count_text, one_line, releases_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from derive.canonical import Json
    from derive.records.chain import Chain

EXAMPLES = """\
  derive records verify
  derive records verify --head sha256:...       the digest that was noted elsewhere
  derive records verify --since v2              against the commits since that one alone
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--head", type=something, metavar="DIGEST", help="what the last record's digest must be")
    parser.add_argument("--since", type=something, metavar="COMMIT", help="look no further back in git than this")


def run(args: argparse.Namespace) -> int:
    """Check, print what was found and the digest of the last record; exit 1 where anything is wrong."""
    from derive.records.held import hold
    from derive.releases.evidence import evidence_problems

    root = project_root(args)
    found = hold(root, args.since)
    chain, history = found.chain, found.history
    problems = [
        *found.records,
        *found.documents,
        *evidence_problems(root, chain),
        *history.problems,
        *_other_head(args.head, chain),
    ]
    if history.refused is not None:
        note(f"not held against git: {history.refused}")
    if history.is_partial:
        note("git has only the latest part of the history here: what was committed before is not held against it")
    releases, historical = (
        sum(entry.record.kind == kind for entry in chain.entries) for kind in ("candidate", "historical")
    )
    if wants_json(args):
        body: dict[str, Json] = {
            "head": None if chain.head is None else str(chain.head),
            "records": len(chain.entries),
            "releases": releases,
            "historical": historical,
            "commits": None if history.refused is not None else history.commits,
            "problems": [_document(one) for one in problems],
        }
        answer_record("records-verify", root.name, body)
    else:
        counts = f"{count_text(len(chain.entries), 'record')}, {releases_text(releases, historical)}"
        against = "" if history.refused is not None else f", {count_text(history.commits, 'commit')}"
        verdict = "sound" if not problems else count_text(len(problems), "problem")
        answer("\n".join([*_lines(problems), f"{verdict}: {counts}{against}", f"head  {chain.head or 'none'}"]))
    return 1 if problems else 0


def _other_head(said: str | None, chain: Chain) -> Iterator[Problem]:
    got = "none" if chain.head is None else str(chain.head)
    if said is not None and (
        len(said) < 12 or not got.removeprefix("sha256:").startswith(said.removeprefix("sha256:"))
    ):
        hint = "a chain rewritten from some record on is sound in itself: see git, or another's copy"
        where = chain.entries[-1].where if chain.entries else "records/releases"
        message = "not the head that was noted: records were rewritten, or there are others"
        if any(
            str(entry.digest).removeprefix("sha256:").startswith(said.removeprefix("sha256:"))
            for entry in chain.entries
        ):
            message, hint = "records follow the one that was noted", "name the head of now"
        yield Problem(where=where, message=message, detail=expected_got(said, got), hint=hint)


def _lines(problems: Sequence[Problem]) -> Iterator[str]:
    for one in problems:
        yield one_line(f"{one.where}: {one.message}")
        yield from (f"       {one_line(line)}" for line in one.detail)
        if one.hint is not None:
            yield f"  next  {one.hint}"


def _document(one: Problem) -> dict[str, Json]:
    return {"where": one.where, "message": one.message, "detail": list(one.detail), "hint": one.hint}
