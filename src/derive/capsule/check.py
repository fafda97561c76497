# SPDX-License-Identifier: Apache-2.0
"""Checks a capsule whole: the layout, every hash, each tree with its commit, and that nothing of a release is absent.

Edge: reads a capsule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from derive.canonical import Digest
from derive.capsule.hashing import digests_of
from derive.capsule.inputs import inputs_of
from derive.capsule.known import known_in
from derive.capsule.model import CapsuleDocument, Part
from derive.capsule.oci import Listed, read_manifest
from derive.capsule.read import Capsule, document_of
from derive.errors import Corrupt, DeriveError, Problem, expected_got
from derive.images.oci import named_blobs
from derive.releases.content import wanted_of
from derive.trees.nar_read import locate_nar

if TYPE_CHECKING:
    from derive.capsule.tar_index import Slice
    from derive.store.protocol import Store
    from derive.trees.listing import File

_AGAIN = "make it again, or copy it again from where it is whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found: the capsules that can be read, blobs and bytes that were hashed, and everything wrong.

    ``unnamed`` counts the blobs that no capsule names: they are not hashed.
    """

    documents: tuple[CapsuleDocument, ...]
    blobs: int
    size: int
    unnamed: int
    problems: tuple[Problem, ...]


def check_capsule(capsule: Capsule, jobs: int) -> Checked:
    """Check everything in a folder or tar; what is wrong is said all at once, and nothing raises but HostRefuses.

    A blob is hashed when its size is the one that is said of it.
    """
    problems = list(_layout_problems(capsule))
    documents: list[CapsuleDocument] = []
    named: set[Digest] = set()
    try:
        listed = capsule.listed
    except Corrupt as error:
        listed = ()
        problems += error.problems()
    for one in listed:
        try:
            document = document_of(one, capsule.small, capsule.where)
            named |= {part.digest for part in document.parts} | _documents(capsule, one)
            problems += _named_problems(capsule, one, document)
            documents.append(document)
        except DeriveError as error:
            problems += [_at(problem, capsule, one.name) for problem in error.problems()]
    if not listed and not problems:
        problems.append(Problem(where=capsule.where, message="its index names no capsule"))
    uses = {part.digest: part for document in documents for part in document.parts}
    blobs = _blobs(capsule, problems)
    # What has another size than is said of it is told already: to hash it could take for ever.
    sound = {digest for digest in named & blobs.keys() if digest not in uses or uses[digest].size == blobs[digest]}
    wrong = list(_wrong(capsule, sound, uses, jobs))
    problems += wrong
    if not wrong and sound >= uses.keys():
        for document in documents:
            problems += _incomplete(capsule, document)
    return Checked(
        documents=tuple(documents),
        blobs=len(sound),
        size=sum(blobs[digest] for digest in sound),
        unnamed=len(blobs.keys() - named),
        problems=tuple(sorted(set(problems))),
    )


def _layout_problems(capsule: Capsule) -> Iterator[Problem]:
    try:
        capsule.require_layout()
        for path in capsule.layout.strange():
            yield Problem(where=path, message="belongs to no layout")
    except Corrupt as error:
        yield from error.problems()


def _blobs(capsule: Capsule, problems: list[Problem]) -> dict[Digest, int]:
    try:
        return capsule.layout.blobs()
    except Corrupt as error:
        problems += error.problems()
        return {}


def _documents(capsule: Capsule, listed: Listed) -> set[Digest]:
    manifest = read_manifest(capsule.small(listed.manifest), capsule.where)
    return {listed.manifest, manifest.document.digest}


def _named_problems(capsule: Capsule, listed: Listed, document: CapsuleDocument) -> Iterator[Problem]:
    """Yield what a manifest names and is not there, and what its document says otherwise."""
    where = f"{capsule.where}: {listed.name}"
    manifest = read_manifest(capsule.small(listed.manifest), where)
    if manifest.blobs != {part.digest: part.size for part in document.parts}:
        yield Problem(where=where, message="the manifest names other blobs than the document", hint=_AGAIN)
    if document.name != listed.name:
        detail = expected_got(listed.name, document.name)
        yield Problem(where=where, message="the document is of another release", detail=detail, hint=_AGAIN)
    for part in document.parts:
        found = capsule.layout.slice(part.digest)
        if found is None:
            yield Problem(where=where, message=f"a blob is absent: {_shown(part)}", detail=_blob(part), hint=_AGAIN)
        elif found[1].size != part.size:
            sizes = (*_blob(part), *expected_got(f"{part.size} bytes", f"{found[1].size} bytes"))
            yield Problem(where=where, message=f"a blob has another size: {_shown(part)}", detail=sizes, hint=_AGAIN)


def _wrong(capsule: Capsule, blobs: Iterable[Digest], uses: dict[Digest, Part], jobs: int) -> Iterator[Problem]:
    """Hash blobs, and yield those that are not what they are called."""

    def wanted() -> Iterator[tuple[Digest, str, Slice]]:
        for digest in sorted(blobs):
            found = capsule.layout.slice(digest)
            if found is not None:
                yield digest, *found

    for digest, got in digests_of(wanted(), jobs):
        if got == digest:
            continue
        what = f": {_shown(uses[digest])}" if digest in uses else ""
        if isinstance(got, OSError):
            reason = (got.strerror or str(got)).lower()
            yield Problem(where=capsule.where, message=f"a blob cannot be read{what}: {reason}", detail=_named(digest))
        else:
            message, differs = f"a blob is not what its name says{what}", expected_got(digest, got or "fewer bytes")
            yield Problem(where=capsule.where, message=message, detail=differs, hint=_AGAIN)


def _incomplete(capsule: Capsule, document: CapsuleDocument) -> Iterator[Problem]:
    """Yield what a release takes and its capsule has not, as the release's own documents say."""
    try:
        known = known_in(capsule, document)
        facts = known.facts
    except (DeriveError, ValueError) as error:
        found = error.problems() if isinstance(error, DeriveError) else (Problem(where="", message=str(error)),)
        yield from (_at(problem, capsule, document.name) for problem in found)
        return
    where = f"{capsule.where}: {document.name}"
    has = {part.digest for part in document.parts}
    for path, digest in wanted_of(known).items():
        if digest not in has:
            yield Problem(where=where, message=f"absent: content {path}", detail=_named(digest), hint=_AGAIN)
    for one in inputs_of(facts, document.platforms, document.engine):
        if one.digest not in has:
            yield Problem(where=where, message=f"absent: {one.use}", detail=_named(one.digest), hint=_AGAIN)
        elif one.is_image:
            for blob in named_blobs(capsule.small(one.digest)):
                if blob.digest not in has:
                    message = f"absent: {one.use}, of which its manifest names"
                    yield Problem(where=where, message=message, detail=_named(blob.digest), hint=_AGAIN)
        elif one.is_commit and document.trees.get(one.digest) is None:
            message = f"{one.use} is there, and no proof of its commit"
            yield Problem(where=where, message=message, detail=_named(one.digest), hint=_AGAIN)
    yield from _tree_problems(capsule, document, {one.tree.digest: one.commit for one in facts.upstreams})


def _tree_problems(
    capsule: Capsule, document: CapsuleDocument, commits: Mapping[Digest, str | None]
) -> Iterator[Problem]:
    """Yield each tree that is none, or not that of the commit that the release names."""
    from derive.git.objects import commit_id
    from derive.git.proof import check_proof, parse_proof

    uses = {part.digest: part for part in document.parts}
    for nar, proof in document.trees.items():
        if nar not in uses:
            continue
        try:
            listing = locate_nar(capsule.read(nar), nar)
            if proof is not None:
                data = capsule.small(proof)
                commit = commits.get(nar) or commit_id(parse_proof(data).commit)
                check_proof(cast("Store", _Contents(capsule)), listing, data, commit)
        except DeriveError as error:
            message = f"{_shown(uses[nar])}: {error.message}"
            yield Problem(where=f"{capsule.where}: {document.name}", message=message, detail=error.detail)


class _Contents:
    """Reads files out of the NARs in a capsule: all that a proof asks of a store."""

    def __init__(self, capsule: Capsule) -> None:
        self._capsule = capsule

    def read(self, file: File) -> Iterator[bytes]:
        assert file.at is not None
        return self._capsule.span(file.at.blob, file.at.offset, file.at.size)


def _at(problem: Problem, capsule: Capsule, name: str) -> Problem:
    where = f"{capsule.where}: {name}"
    inner = problem.where.removeprefix(where).removeprefix(": ").removeprefix(capsule.where)
    place = f"{where}: {inner}" if inner else where
    return Problem(where=place, message=problem.message, detail=problem.detail, hint=problem.hint)


def _shown(part: Part) -> str:
    more = f" and {len(part.uses) - 1} more" if len(part.uses) > 1 else ""
    return f"{part.uses[0]}{more}"


def _blob(part: Part) -> tuple[str, ...]:
    return _named(part.digest)


def _named(digest: Digest) -> tuple[str, ...]:
    return (f"blob      {digest}",)
