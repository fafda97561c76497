# SPDX-License-Identifier: Apache-2.0
"""What ``derive release`` calls: from a question that was read and judged to a release that stands in the chain.

Edge: the project's records, the store, git, the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import Json
from derive.errors import HostRefuses, InputErrors, Problem
from derive.outfile import open_output
from derive.project import CONTENT_ROOTS, LAUNCH_ROOTS
from derive.records.chain import FACTS_FILE, RELEASE_FILE
from derive.records.history import commit_of
from derive.records.who import who
from derive.releases.cost import cost_of
from derive.releases.describe import Question, foreseen
from derive.releases.document import Release
from derive.releases.evidence import read_evidence, read_waivers, require_about
from derive.releases.facts import Facts
from derive.releases.find import known_releases
from derive.releases.make import Decision, Made, write_release
from derive.releases.roots import keep_release
from derive.releases.shapes import recipe_hashes
from derive.releases.speaks import About
from derive.store.local import LocalStore
from derive.store.space import is_full

_CONTENT = ("pyproject.toml", *sorted({*CONTENT_ROOTS, *LAUNCH_ROOTS}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a person says of a release: who decides and why, what was before it, and what speaks for it."""

    by: str | None
    why: str | None
    previous: str | None
    evidence: Sequence[Mapping[str, Json]]


def evidence_for(
    question: Question, files: Sequence[str], waived: Sequence[str], expires: str | None
) -> list[dict[str, Json]]:
    """Read what speaks for a release, and what is let pass; raises InputErrors with all that is wrong in either."""
    shapes, root, now = question.served.recipe.shapes, question.project.root, int(time.time())
    problems: list[Problem] = []
    entries: list[dict[str, Json]] = []
    reading: tuple[Callable[[], list[dict[str, Json]]], ...] = (
        lambda: read_evidence(root, files, shapes),
        lambda: read_waivers(waived, expires, shapes, now),
    )
    for read in reading:
        try:
            entries += read()
        except InputErrors as error:
            problems += error.problems()
    if problems:
        raise InputErrors(problems)
    return entries


def require_new(name: str, question: Question) -> None:
    """Refuse a release that stands there under another name, as far as that is known before its images are derived.

    Raises:
        InputErrors: when one of the same derivations does, and so of the same documents.
    """
    targets = {platform: target.id for platform, target in question.targets.items()}
    for known in known_releases(question.project.root):
        images = known.release.images
        if known.name == name or {platform: image.derivation for platform, image in images.items()} != targets:
            continue
        if foreseen(question, {platform: image.digest for platform, image in images.items()}).digest == known.digest:
            hint = f"it is there already: derive records show {known.name}"
            raise InputErrors.one(f"this release is {known.name!r} already", where=known.entry.where, hint=hint)


def record(name: str, question: Question, store: LocalStore, release: Release, facts: Facts, said: Said) -> Made:
    """Write a release down as a candidate, and let the store keep what it is made of; raises as the steps do."""
    root = question.project.root
    require_about(root, said.evidence, About.of(name, release))
    commit, modified = commit_of(root, _CONTENT)
    duration, size = cost_of(question.targets.values(), store)
    decision = Decision(
        made_by=who(root, said.by),
        made_s=int(time.time()),
        why=said.why,
        previous=said.previous,
        commit=commit,
        modified=modified,
        texts=recipe_hashes(question.files),
        evidence=said.evidence,
        duration_ns=duration,
        store_bytes=size,
    )
    made = write_release(root, name, release, facts, decision)
    try:
        keep_release(store, name, release, question.files)
    except OSError as error:
        if not is_full(error, store.root):
            raise
        raise HostRefuses(
            f"{made.entry.where} is written, and there is no space in the store to keep what it names",
            where=str(store.root),
            hint="make room with derive store gc, and run the same command again: it ends the work",
        ) from error
    return made


def write_documents(folder: Path, release: Release, facts: Facts) -> None:
    """Write the two documents of a release into a folder, which is made, in place of what has their names.

    Raises:
        InputErrors, HostRefuses: when they cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputErrors.one("this is no folder", where=str(folder)) from None
    except OSError as error:
        raise HostRefuses(f"cannot be made: {(error.strerror or '').lower()}", where=str(folder)) from error
    for name, data in ((FACTS_FILE, facts.encoded()), (RELEASE_FILE, release.encoded())):
        with open_output(folder / name) as file:
            file.write(data)
