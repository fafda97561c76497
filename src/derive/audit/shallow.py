# SPDX-License-Identifier: Apache-2.0
"""What can be said of a release without building anything: chain, documents, the capsule's blobs, signatures.

Edge: a project's folder, a capsule, keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.audit.subject import Subject
from derive.canonical import Digest, sha256
from derive.errors import DeriveError, InputErrors, Problem, expected_got
from derive.records.chain import chain_problems, place
from derive.records.documents import document_problems
from derive.words import count_text, size_text

if TYPE_CHECKING:
    from derive.capsule.model import CapsuleDocument, Part
    from derive.capsule.read import Capsule
    from derive.releases.find import Known

_FEWEST = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shallow:
    """What is wrong, what was looked at, and what else a person should know."""

    problems: tuple[Problem, ...]
    checked: tuple[str, ...]
    notes: tuple[str, ...]


def look(subject: Subject, jobs: int) -> Shallow:
    """Check everything about a release that needs no build; reads the whole capsule, where there is one."""
    problems: list[Problem] = list(subject.problems)
    checked: list[str] = []
    notes: list[str] = []
    problems += _chain(subject, checked)
    if subject.known is not None:
        problems += _documents(subject.known, checked)
    if subject.capsule is not None and subject.document is not None:
        problems += _blobs(subject.capsule, subject.document, jobs, checked)
        if subject.known is not None:
            problems += _complete(subject.known, subject.document, subject.capsule.where)
    if subject.root is not None and subject.known is not None:
        problems += _signatures(subject, checked, notes)
    return Shallow(problems=tuple(dict.fromkeys(problems)), checked=tuple(checked), notes=tuple(notes))


def _chain(subject: Subject, checked: list[str]) -> Iterator[Problem]:
    """Check the chain: whole in a project; of what a capsule has, each record by itself."""
    if subject.root is not None:
        checked.append(f"chain of {count_text(len(subject.chain.entries), 'record')}, and the documents that they name")
        yield from chain_problems(subject.chain, subject.files)
        yield from document_problems(subject.chain, subject.files)
        return
    checked.append(
        f"{count_text(len(subject.chain.entries), 'record')} of the capsule, and the documents of this release"
    )
    if subject.problems:
        return  # of what cannot be read, nothing else can be said
    yield from chain_problems(subject.chain, subject.files)
    own = (place(f"{subject.name}/"), *(entry.where for entry in subject.chain.of(subject.name)))
    yield from (one for one in document_problems(subject.chain, subject.files) if one.where.startswith(own))


def _documents(known: Known, checked: list[str]) -> Iterator[Problem]:
    """Check that facts can be read, and are of this release."""
    checked.append(f"release {sha256(known.release_data)}, computed from its document")
    try:
        facts = known.facts
    except ValueError as error:
        yield Problem(where=f"{known.name}/facts.json", message=f"cannot be read: {error}")
        return
    for platform, image in known.release.images.items():
        found = facts.images.get(platform)
        outputs = None if found is None else found.derivations.get(image.derivation)
        got = None if outputs is None else outputs.outputs.get("out")
        if got is None or got.digest != image.digest:
            place = f"{known.name}/facts.json: images.{platform}"
            detail = expected_got(image.digest, "nothing" if got is None else got.digest)
            yield Problem(where=place, message="the image's derivation gives another image", detail=detail)


def _blobs(capsule: Capsule, document: CapsuleDocument, jobs: int, checked: list[str]) -> Iterator[Problem]:
    """Hash every blob that a capsule says it has."""
    from derive.capsule.hashing import digests_of

    parts = {part.digest: part for part in document.parts}
    wanted = []
    for part in document.parts:
        at = capsule.layout.slice(part.digest)
        if at is None:
            yield Problem(
                where=capsule.where,
                message=f"{_uses(part)} is not in the capsule",
                detail=(f"missing   {part.digest}",),
            )
        elif at[1].size != part.size:
            yield Problem(
                where=f"{capsule.where}: blobs/sha256/{part.digest.hex}",
                message=f"{_uses(part)} has another size in the capsule",
                detail=expected_got(f"{part.size} bytes", f"{at[1].size} bytes"),
                hint="copy the capsule again from where it is whole",
            )
        else:
            wanted.append((part.digest, *at))
    for key, digest in digests_of(wanted, jobs):
        if digest != key:
            got = digest if isinstance(digest, Digest) else f"nothing: {digest}"
            yield Problem(
                where=f"{capsule.where}: blobs/sha256/{key.hex}",
                message=f"{_uses(parts[key])} was altered: the capsule's copy is not what its name says",
                detail=expected_got(key, got),
                hint="copy the capsule again from where it is whole",
            )
    checked.append(f"{count_text(len(parts), 'blob')} of the capsule, {size_text(document.size)}")


def _uses(part: Part) -> str:
    shown = " and ".join(str(use) for use in part.uses[:2])
    return f"{shown} and {len(part.uses) - 2} more" if len(part.uses) > 2 else shown


def _complete(known: Known, document: CapsuleDocument, where: str) -> Iterator[Problem]:
    """Say what a release takes that a capsule does not name."""
    from derive.releases.content import wanted_of

    held = {part.digest for part in document.parts}
    for path, digest in wanted_of(known).items():
        if digest not in held:
            yield Problem(
                where=where, message=f"the content file {path} is not in the capsule", detail=(f"missing   {digest}",)
            )


def _signatures(subject: Subject, checked: list[str], notes: list[str]) -> Iterator[Problem]:
    """Check the certificates of a release, where it has any."""
    from derive.certificates.folder import read_folder
    from derive.certificates.gather import stand_here
    from derive.certificates.judge import Held, Unread

    assert subject.root is not None
    assert subject.known is not None
    held = read_folder(subject.root, subject.name)
    for one in held:
        if isinstance(one, Unread):
            yield Problem(where=one.file, message=f"not a certificate: {one.why}")
    there = {one.digest for one in held if isinstance(one, Held)}
    for entry in subject.chain.of(subject.name, "promoted"):
        named = entry.record.body.get("certificates")
        for text in named if isinstance(named, list | tuple) else ():
            if Digest.parse(str(text)) not in there:
                message = "a certificate that the promotion names is not there"
                yield Problem(where=entry.where, message=message, detail=(f"missing   {text}",))
    if not held:
        notes.append("no certificate of it is here")
        return
    try:
        standing = stand_here(subject.root, subject.known, None, need=_FEWEST)
    except (InputErrors, DeriveError) as error:
        notes.append(f"{count_text(len(held), 'certificate')} not judged: {error.problems()[0].message}")
        return
    checked.append(f"signatures of {count_text(len(held), 'certificate')}")
    yield from (Problem(where=f"records/certificates/{subject.name}", message=alarm) for alarm in standing.alarms)
    for judged in standing.judged:
        if not judged.builders or not judged.agrees:
            why = judged.elsewhere or ", ".join(sorted({signed.why for signed in judged.signed if signed.why}))
            notes.append(f"certificate {judged.held.file} does not count: {why or 'no builder signed it'}")
