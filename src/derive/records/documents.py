# SPDX-License-Identifier: Apache-2.0
"""The documents that a chain's records name, held against the files that are there.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.canonical import sha256
from derive.errors import Problem, expected_got
from derive.records.chain import DOCUMENTS, FACTS_FILE, RELEASE_FILE, Chain, Entry, place


def document_problems(chain: Chain, files: Mapping[str, bytes]) -> Iterator[Problem]:
    """Yield each document that is not there, or not as recorded, and each file that no record names."""
    named: set[str] = set()
    for entry in chain.entries:
        if entry.record.kind == "candidate":
            named |= {f"{entry.record.subject}/{name}" for name in DOCUMENTS}
            yield from _of_candidate(entry, files)
    for path in sorted(files):
        if "/" in path and path not in named:
            hint = "a release that was not finished leaves such: delete it, or release again under its name"
            yield Problem(where=place(path), message="no record names this file", hint=hint)


def _of_candidate(entry: Entry, files: Mapping[str, bytes]) -> Iterator[Problem]:
    documents = entry.record.body.get("documents")
    if not isinstance(documents, Mapping):
        return  # said already, as what is wrong with the body
    sound = True
    for name in DOCUMENTS:
        path = f"{entry.record.subject}/{name}"
        data = files.get(path)
        if data is None:
            sound = False
            hint = f"bring it back: git log --diff-filter=D -- {place(path)}"
            yield Problem(where=place(path), message=f"no such file, and {entry.file} names it", hint=hint)
        elif str(sha256(data)) != documents.get(name):
            sound = False
            detail = expected_got(documents.get(name), sha256(data))
            yield Problem(where=place(path), message=f"not what {entry.file} names: edited since", detail=detail)
    if sound:
        yield from _contents(entry, files)


def _contents(entry: Entry, files: Mapping[str, bytes]) -> Iterator[Problem]:
    """Yield where documents that are as recorded do not say what the record says."""
    from derive.releases.document import read_release
    from derive.releases.facts import read_facts

    subject, body = entry.record.subject, entry.record.body
    try:
        release = read_release(files[f"{subject}/{RELEASE_FILE}"])
    except ValueError as error:
        yield Problem(where=place(f"{subject}/{RELEASE_FILE}"), message=str(error))
        return
    if str(release.digest) != body.get("release"):
        detail = expected_got(release.digest, body.get("release"))
        yield Problem(where=f"{entry.where}: body.release", message="not the release's digest", detail=detail)
    images = {platform: str(one.digest) for platform, one in release.images.items()}
    if images != body.get("images"):
        detail = expected_got(images, body.get("images"))
        yield Problem(where=f"{entry.where}: body.images", message="not the release's images", detail=detail)
    try:
        facts = read_facts(files[f"{subject}/{FACTS_FILE}"])
    except ValueError as error:
        yield Problem(where=place(f"{subject}/{FACTS_FILE}"), message=str(error))
        return
    if facts.release != release.digest:
        detail = expected_got(release.digest, facts.release)
        where = f"{place(f'{subject}/{FACTS_FILE}')}: release"
        yield Problem(where=where, message="facts of another release", detail=detail)
