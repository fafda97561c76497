# SPDX-License-Identifier: Apache-2.0
"""A release as its capsule knows it: no project is at hand, and none is needed.

Edge: reads a capsule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from derive.canonical import Digest
from derive.capsule.inputs import Contents, inputs_of, texts_of
from derive.capsule.model import FACTS, RECORD, RELEASE, CapsuleDocument
from derive.capsule.read import Capsule
from derive.derivations.model import Platform
from derive.errors import Corrupt, InputErrors
from derive.records.chain import Chain, chain_problems, read_chain
from derive.releases.find import Known, known_of


def known_in(capsule: Capsule, document: CapsuleDocument) -> Known:
    """Return a release with the record that made it; the chain up to it is checked, and each document by its hash.

    Raises:
        InputErrors: everything that is wrong with the chain of records.
        Missing, Corrupt: when a document is not there, or is another.
    """
    files = record_files(capsule, document)
    chain = read_chain(files)
    problems = chain_problems(chain, files)
    if problems:
        raise InputErrors(problems)
    entry = next((one for one in chain.entries if _is_of(one.record.body, document.release)), None)
    if entry is None or entry.record.subject != document.name:
        raise Corrupt(f"no record in it made the release {document.name}", where=capsule.where)
    return known_of(entry, files)


def record_files(capsule: Capsule, document: CapsuleDocument) -> dict[str, bytes]:
    """Return the records and documents in a capsule by their path below ``records/releases/``."""
    files = {name: capsule.small(digest) for name, digest in document.of(RECORD).items()}
    for kind in (RELEASE, FACTS):
        files |= {f"{document.name}/{name}": capsule.small(digest) for name, digest in document.of(kind).items()}
    return files


def contents_of(
    known: Known,
    chain: Chain,
    records: Mapping[str, bytes],
    files: Mapping[str, bytes],
    platforms: Iterable[Platform],
    *,
    engine: bool = True,
) -> Contents:
    """Return what a capsule of a release holds; ``records`` are files of the chain, ``files`` the content.

    Without platforms, the images of all are derived from it; without ``engine``, whoever derives has one already.

    Raises:
        InputErrors: when the release has no image for one of the platforms.
    """
    has = tuple(sorted(known.release.images))
    wanted = tuple(sorted(set(platforms))) or has
    absent = [one for one in wanted if one not in has]
    if absent:
        detail = [f"it has    {', '.join(has)}"]
        raise InputErrors.one(f"{known.name} has no image for {', '.join(absent)}", detail=detail)
    upto = {one.file: records[one.file] for one in chain.entries if one.number <= known.entry.number}
    facts = known.facts
    engines = tuple(sorted(facts.engine)) if engine else ()
    return Contents(
        name=known.name,
        release=known.release.digest,
        platforms=wanted,
        engine=engines,
        inputs=inputs_of(facts, wanted, engines),
        texts=texts_of(known.release_data, known.facts_data, upto, files),
    )


def _is_of(body: Mapping[str, object], release: Digest) -> bool:
    return body.get("release") == str(release) and "documents" in body
