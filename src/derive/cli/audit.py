# SPDX-License-Identifier: Apache-2.0
"""Derive a release again from nothing with the engine that made it, and say whether the same came out; 1 if not.

Edge: a project or a capsule, a scratch folder, the store, standard streams.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.colour import wants_colour
from derive.cli.console import answer, answer_record, jobs_of, note, project_root, store_folder, wants_json
from derive.cli.options import something
from derive.cli.running import options_of
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse

    from derive.audit.service import Ask, Wanted
    from derive.audit.subject import Subject
    from derive.audit.verdict import Verdict
    from derive.build.service import Options

EXAMPLES = """\
  derive audit probe-1 --capsule probe-1.tar       no project and no network are needed
  derive audit probe-1 --shallow                   hashes, signatures and chain; nothing is built
  derive audit probe-1 --platform linux/amd64      in a project: what is served still is fetched first
  derive audit records/releases/0012-probe-1.json --today
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    platforms = ("linux/amd64", "linux/arm64")
    add("release", type=something, metavar="RELEASE", help="a name, a digest, or the file of a record")
    add("--capsule", type=something, metavar="PATH", help="a capsule of it, a folder or a file")
    add("--platform", action="append", default=[], choices=platforms, help="default: all; may be given again")
    add("--shallow", action="store_true", help="check hashes, signatures and chain, and build nothing")
    add(
        "--scratch",
        type=something,
        metavar="DIR",
        help="where to work; a later run goes on there (default: audits beside the store)",
    )
    add("--keep", action="store_true", help="keep that folder, whatever comes out")
    add("--offline", action="store_true", help="fetch nothing, also for the engine of then")
    add(
        "--today", action="store_true", help="derive it with the engine at hand too: finds builders that changed unseen"
    )
    add("--diffoscope", action="store_true", help="let diffoscope show the first difference too")
    add("--record", action="store_true", help="write the verdict to records/audits/ of the project")
    add("--yes", action="store_true", help="do not ask before an audit that takes long")
    add("--plain", action="store_true", help="no colour, whatever the terminal")


def run(args: argparse.Namespace) -> int:
    """Audit, answer with the verdict."""
    from derive.audit.service import audit, shallow
    from derive.cli.progress import progress_for_stderr

    if args.record and _root(args) is None:
        raise InputErrors.one("no project is here to write the record to", where="--record")
    subject = _subject(args)
    if args.shallow:
        verdict = shallow(subject, jobs_of(args))
    else:
        verdict = audit(subject, *_wanted(args, subject), progress_for_stderr(), note, _asking(args))
        with suppress(OSError):  # there is another audit in it, or there is none
            _audits(args).rmdir()
    for one in verdict.notes if args.shallow else ():
        note(one)
    return _answer(args, verdict)


def _root(args: argparse.Namespace) -> Path | None:
    """Return the project, None where none is here: a capsule needs none."""
    if getattr(args, "project", None) is not None:
        return project_root(args)
    try:
        return project_root(args)
    except InputErrors:
        return None


def _subject(args: argparse.Namespace) -> Subject:
    from derive.audit.subject import find_subject
    from derive.capsule.read import open_capsule

    capsule = open_capsule(Path(args.capsule).absolute()) if args.capsule else None
    return find_subject(args.release, _root(args), capsule)


def _wanted(args: argparse.Namespace, subject: Subject) -> tuple[Wanted, Options]:
    from derive.audit.service import Wanted
    from derive.audit.subject import release_of
    from derive.engine.service import own_platform

    store, release = store_folder(args), release_of(subject)
    usual = _audits(args) / f"{subject.name}-{'unknown' if release is None else release.short}"
    wanted = Wanted(
        platforms=args.platform,
        scratch=Path(os.path.abspath(args.scratch)) if args.scratch else usual,  # noqa: PTH100 - links stay links
        store=store,
        jobs=getattr(args, "jobs", None),
        keep=args.keep,
        today=args.today,
        diffoscope=args.diffoscope,
    )
    # A capsule that has what the engine is made of needs no network, and is not to wait for any.
    is_whole = subject.document is not None and own_platform() in subject.document.engine
    options = options_of(args)
    return wanted, replace(options, offline=options.offline or is_whole)


def _audits(args: argparse.Namespace) -> Path:
    """Return the folder beside the store in which audits work unless a person names another."""
    return Path(os.path.normpath(store_folder(args))).parent / "audits"


def _asking(args: argparse.Namespace) -> Ask:
    """Return what asks a person at a terminal, who may have more to do than to wait; others are not asked."""

    def ask(_text: str) -> bool:
        if args.yes or not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
            return True
        sys.stderr.write("go on? [Y/n] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("", "y", "yes")

    return ask


def _answer(args: argparse.Namespace, verdict: Verdict) -> int:
    from derive.why.render import render

    if args.record:
        from derive.records.numbered import AUDITS

        root = _root(args)
        assert root is not None
        path = AUDITS.add(root, verdict.name, {**verdict.body(), "checked_s": int(time.time())})
        note(f"written: {AUDITS.folder}/{path.name}")
    if wants_json(args):
        answer_record("audit", verdict.name, verdict.body())
    else:
        answer(render(verdict.lines(), colour=wants_colour(args)))
    return verdict.exit_code
