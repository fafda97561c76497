# SPDX-License-Identifier: Apache-2.0
"""Derive every image of a recipe, render its shapes for no site, and write down the release that they are.

Edge: the project, its records, the store, standard streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import Digest
from derive.cli.console import answer, answer_record, note, project_of, store_folder, table, wants_json
from derive.cli.options import line, something
from derive.cli.running import options_of
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.releases.describe import Question
    from derive.releases.make import Made
    from derive.store.local import LocalStore

EXAMPLES = """\
  derive release probe-2 --recipe probe --why "perftest 25.07"
  derive release r7 --recipe ds41f --evidence records/bench/r7.json:tp4-ring
  derive release r7 --recipe ds41f --waive tp3-triangle="no triangle at hand" --expires 2027-01-31
  derive release probe-2 --recipe probe --dry-run
"""

_AGAIN = "; may be given again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", type=something, metavar="NAME", help="what the release is called, for ever")
    parser.add_argument("--recipe", type=something, required=True, metavar="NAME", help="the recipe that it serves")
    add = parser.add_argument
    platforms = ("linux/amd64", "linux/arm64")
    again = "append"
    add("--platform", action=again, default=[], choices=platforms, help=f"default: those of the image's file{_AGAIN}")
    add("--why", type=line, metavar="TEXT", help="why it is made")
    add("--by", type=line, metavar="NAME", help="who decides (default: as git's settings say)")
    add("--previous", type=something, metavar="NAME", help="the release before it (default: the last of the recipe)")
    add("--evidence", action=again, default=[], metavar="FILE[:SHAPE]", help=f"a record that speaks for it{_AGAIN}")
    add("--waive", action=again, default=[], metavar="SHAPE=REASON", help=f"why a shape has no evidence{_AGAIN}")
    add("--expires", metavar="YYYY-MM-DD", help="the last day on which what is waived may pass")
    add("--offline", action="store_true", help="fetch nothing")
    add("--dry-run", action="store_true", help="say what would be derived, and write nothing")
    add("--write-to", type=something, metavar="DIR", help="write release.json and facts.json there, and no record")
    add("--again", type=_step, metavar="ID", help="with --write-to: build this derivation of it once more: again.json")


def _step(text: str) -> Digest:
    """Take the id of a derivation."""
    import argparse

    try:
        return Digest(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not the id of a derivation, 64 hex digits: {text!r}") from None


def run(args: argparse.Namespace) -> int:
    """Derive, write down, answer with the release's digest."""
    from derive.cli.progress import progress_for_stderr
    from derive.releases import service
    from derive.releases.again import build_again, require_step, write_again
    from derive.releases.describe import answer as described
    from derive.releases.describe import question_of
    from derive.releases.make import require_free, require_name
    from derive.releases.standing import require_same
    from derive.store.local import LocalStore

    require_name(args.name)
    project = project_of(args)
    question = question_of(project, args.recipe, args.platform, partly=bool(args.write_to))
    if args.again is not None:
        require_step(question, args.again)
        if not args.write_to:
            hint = "say where to write what it gave: --write-to DIR"
            raise InputErrors.one("without --write-to it has no place", where="--again", hint=hint)
    evidence = service.evidence_for(question, args.evidence, args.waive, args.expires)
    previous = None if args.write_to else require_free(project.root, args.name, args.recipe, args.previous)
    if not args.write_to:
        require_same(project.root, args.name, question)
    if args.dry_run and not args.write_to:
        service.require_new(args.name, question)  # else found when it is written: it may come out otherwise now
    with LocalStore(store_folder(args)) as store:
        if args.dry_run:
            return _plan(args, question, store)
        options = options_of(args)
        release, facts = described(question, store, options, progress_for_stderr())
        if args.write_to:
            service.write_documents(Path(args.write_to), release, facts)
            if args.again is not None:
                given = build_again(question, args.again, store, options)
                write_again(Path(args.write_to), args.again, given)
            return _answer(args, {"release": str(release.digest)}, str(release.digest))
        said = service.Said(by=args.by, why=args.why, previous=previous, evidence=evidence)
        made = service.record(args.name, question, store, release, facts, said)
    _tell(question, made)
    entry = made.entry
    about: dict[str, Json] = {"number": entry.number, "file": entry.where, "record": str(entry.digest)}
    about["new"] = made.is_new
    return _answer(args, {**about, **entry.record.body}, str(release.digest))


def _answer(args: argparse.Namespace, body: dict[str, Json], text: str) -> int:
    if wants_json(args):
        answer_record("release", args.name, body)
    else:
        answer(text)
    return 0


def _tell(question: Question, made: Made) -> None:
    """Say beside the answer where it stands, and what a person should know of it."""
    body, where = made.entry.record.body, made.entry.where
    note(f"written: {where}" if made.is_new else f"it is there already, and nothing is added: {where}")
    if body["modified"] and made.is_new:
        note("note: files differed from the commit: what was released is here, and in no commit yet")
    for name, judged in question.served.shapes.items():
        for reason in judged.judgement.reasons():
            note(f"note: {name}: {reason}")


def _plan(args: argparse.Namespace, question: Question, store: LocalStore) -> int:
    from derive.build.plan import Action
    from derive.build.service import plan_for
    from derive.words import size_text

    plans = {
        one: plan_for(target, store, options_of(args).root, to_run=False) for one, target in question.targets.items()
    }
    if wants_json(args):
        answer_record("release-plan", args.name, {"plans": {one: plan.document() for one, plan in plans.items()}})
        return 0
    rows = [("platform", "image", "fetch", "build", "to fetch")]
    for one, plan in plans.items():
        fetch, build = (str(len(plan.of(action))) for action in (Action.FETCH, Action.BUILD))
        rows.append((one, plan.target.name, fetch, build, size_text(plan.fetch_bytes)))
    answer(table(rows, right=frozenset({2, 3, 4})))
    return 0
