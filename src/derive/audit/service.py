# SPDX-License-Identifier: Apache-2.0
"""An audit from its operand to its verdict: look, estimate, lay out, bring the engine, derive, compare, explain.

Edge: puts the project, the capsule, stores and sandboxes together. Today's engine builds only the root of the engine of
then; everything else of a release is derived by that engine, and compared here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from derive.audit.compare import Compared, Inputs, chosen_platforms, compare, first_divergence, inputs_of
from derive.audit.difference import build_again, show
from derive.audit.engine import EngineThen, archive_named, engine_then
from derive.audit.estimate import estimate
from derive.audit.inner import arguments, run_then
from derive.audit.scratch import Scratch, open_scratch, require_space
from derive.audit.shallow import Shallow, look
from derive.audit.subject import Subject, release_of
from derive.audit.today import derive_today
from derive.audit.verdict import Verdict
from derive.canonical import Digest
from derive.derivations.model import Platform
from derive.errors import InputErrors, Interrupted
from derive.store.local import LocalStore
from derive.store.space import free_bytes

if TYPE_CHECKING:
    from derive.build.execute import Progress
    from derive.build.service import Options
    from derive.releases.content import Source
    from derive.releases.find import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person asked for. ``jobs`` is None where the engine of then is to choose; ``store`` is their own."""

    platforms: Sequence[Platform]
    scratch: Path
    store: Path
    jobs: int | None
    keep: bool = False
    today: bool = False
    diffoscope: bool = False


Say = Callable[[str], None]
"""Tells the person something that is not the answer."""

Ask = Callable[[str], bool]
"""Is asked whether to go on, with the estimate; False ends the audit before anything is done."""


def shallow(subject: Subject, jobs: int) -> Verdict:
    """Return the verdict of an audit that builds nothing."""
    return _looked(subject, look(subject, jobs))


def _looked(subject: Subject, found: Shallow) -> Verdict:
    release = release_of(subject)
    known = subject.known
    images = {} if known is None else {one: image.digest for one, image in known.release.images.items()}
    if release is None:
        raise InputErrors(found.problems)
    return Verdict(
        name=subject.name,
        release=release,
        outcome="altered" if found.problems or known is None else "whole",
        platforms=tuple(sorted(images)),
        images=images,
        problems=found.problems,
        checked=found.checked,
        notes=found.notes,
    )


def audit(subject: Subject, wanted: Wanted, options: Options, progress: Progress, say: Say, ask: Ask) -> Verdict:
    """Derive a release again from nothing, and return what came of it.

    Raises:
        InputErrors: for platforms that it has no image for, or a scratch folder of something else.
        HostRefuses: without the room, or without sandboxes.
        Interrupted: when it was stopped, also by the answer to the estimate; the scratch folder stays.
        DeriveError: what deriving raises, when the release could not be derived at all.
    """
    verdict = shallow(subject, options.jobs)
    if verdict.outcome == "altered":
        return verdict
    assert subject.known is not None
    known = subject.known
    platforms = chosen_platforms(known.release, wanted.platforms or _of_capsule(subject))
    _estimate(subject, known, wanted, say, ask)
    scratch = open_scratch(wanted.scratch, known.digest)
    if scratch.resumed:
        say(f"going on in {scratch.root}")
    try:
        return _derived(subject, scratch, replace(wanted, platforms=platforms), options, progress, verdict, say)
    except KeyboardInterrupt:
        raise _stopped(scratch) from None
    except Interrupted as error:
        raise _stopped(scratch) from error


def _of_capsule(subject: Subject) -> Sequence[Platform]:
    """Return the platforms that a capsule was made for; none in particular without one."""
    return () if subject.document is None else subject.document.platforms


def _stopped(scratch: Scratch) -> Interrupted:
    hint = f"run the same command again: it goes on in {scratch.root}"
    return Interrupted(f"interrupted; what was derived is kept in {scratch.root}", hint=hint)


def _estimate(subject: Subject, known: Known, wanted: Wanted, say: Say, ask: Ask) -> None:
    """Say what it will take, refuse where there is no room, and ask."""
    size = 0 if subject.document is None else subject.document.size
    expected = estimate(known.entry.record.body.get("cost"), known.facts, size)
    text = expected.text(free_bytes(wanted.scratch), str(wanted.scratch))
    say(text)
    require_space(wanted.scratch, expected.disk_bytes)
    if expected.is_long and not ask(text):
        raise Interrupted("not begun", hint="audit without deriving anything: --shallow")


def _derived(
    subject: Subject,
    scratch: Scratch,
    wanted: Wanted,
    options: Options,
    progress: Progress,
    verdict: Verdict,
    say: Say,
) -> Verdict:
    known = subject.known
    assert known is not None
    subject = _with_inputs(subject, known, scratch, wanted, options, progress)
    assert subject.capsule is not None
    archive = Path(subject.capsule.where)
    _lay_out(subject, known, scratch, wanted)
    with archive_named(str(archive)), LocalStore(wanted.store) as store:
        engine = engine_then(known, subject.capsule, subject.document, store, options, progress)
        for note in engine.notes:
            say(note)
        argv = arguments(known.name, known.release.recipe, wanted.platforms, wanted.jobs)
        got = run_then(scratch, engine.root, argv, "out", archive)
        compared = compare((known.release, known.facts), got, wanted.platforms)
        verdict = _judged(verdict, known, compared, engine, wanted)
        if wanted.today:
            today = derive_today(
                got, scratch.project, scratch.root / "today", wanted.platforms, replace(options, offline=True), progress
            )
            verdict = replace(verdict, today=today)
        if not compared.same:
            verdict = _explained(verdict, inputs_of(got[1]), scratch, wanted, engine, argv, archive)
    return _ended(verdict, scratch, wanted, say)


def _with_inputs(
    subject: Subject, known: Known, scratch: Scratch, wanted: Wanted, options: Options, progress: Progress
) -> Subject:
    """Return the subject with a capsule: the one given, or one that is made now of what is served still."""
    from derive.capsule.read import open_capsule
    from derive.capsule.service import Where, create
    from derive.trees.materialise import remove_folder

    if subject.capsule is not None:
        return subject
    assert subject.root is not None
    target = scratch.root / "capsule"
    if not (target / "index.json").exists():
        remove_folder(target)
        at = Where(root=subject.root, known=known, store=wanted.store)
        with LocalStore(wanted.store) as store:
            create(
                at,
                store,
                target,
                options,
                platforms=wanted.platforms,
                engine=False,  # its root is built here, of what is served still
                add=False,
                say=lambda _: None,
                progress=progress,
            )
    capsule = open_capsule(target)
    document = next(one for one in capsule.releases if one.release == known.digest)
    return replace(subject, capsule=capsule, document=document)


def _lay_out(subject: Subject, known: Known, scratch: Scratch, wanted: Wanted) -> None:
    """Write the content of then as a project, anew each time: it is small, and nobody may have edited it."""
    from derive.releases.checkout import write_project
    from derive.releases.content import Packed, Stored, files_of, usual_sources

    assert subject.capsule is not None
    where = subject.capsule.where
    if subject.root is None:
        sources: list[Source] = [Packed(where), Stored(wanted.store, known.name)]
    else:
        sources = list(usual_sources(known, subject.root, wanted.store, (where,)))
    write_project(known.release, files_of(known, sources), scratch.fresh("project"))


def _judged(verdict: Verdict, known: Known, compared: Compared, engine: EngineThen, wanted: Wanted) -> Verdict:
    images: dict[Platform, Digest] = {one: known.release.images[one].digest for one in wanted.platforms}
    return replace(
        verdict,
        outcome="same" if compared.same else "differs",
        platforms=tuple(wanted.platforms),
        images=images,
        compared=compared,
        engine=engine.document(),
        notes=(*verdict.notes, *engine.notes),
    )


def _explained(
    verdict: Verdict,
    inputs: Inputs,
    scratch: Scratch,
    wanted: Wanted,
    engine: EngineThen,
    argv: Sequence[str],
    archive: Path,
) -> Verdict:
    """Find the first divergence, build it once more, and show what differs inside."""
    assert verdict.compared is not None
    first = first_divergence(verdict.compared.moved, inputs)
    if first is None:
        return verdict
    again = build_again(scratch, engine.root, argv, archive, first.moved)
    shown = show(scratch, wanted.store, first.moved, again, diffoscope=wanted.diffoscope)
    return replace(verdict, first=first, again=again, shown=shown.lines, shown_of=shown.of)


def _ended(verdict: Verdict, scratch: Scratch, wanted: Wanted, say: Say) -> Verdict:
    """Delete the scratch folder of an audit that found nothing, unless it is to be kept; say where it is otherwise."""
    if verdict.exit_code == 0 and not wanted.keep:
        scratch.remove()
    else:
        say(f"kept: {scratch.root}, which may be deleted")
    return verdict
