# SPDX-License-Identifier: Apache-2.0
"""Writes a release down: its two documents first, its record last, so that a record never names what is not there.

Edge: ``records/releases/`` of a project, under the lock of its chain; the clock, through whoever calls.

Killed between the two, documents lie there that no record names: the same command again ends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import Digest, Json, decode, sha256
from derive.errors import InputErrors, expected_got
from derive.records.chain import FACTS_FILE, FOLDER, RELEASE_FILE, Chain, Entry, place
from derive.records.folder import alone, append_to, files_below, sound, write_new
from derive.records.held import require_held
from derive.records.kinds import new_name_problem
from derive.releases.document import Release
from derive.releases.facts import Facts
from derive.releases.find import known_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a record says of a release beside its documents. ``previous`` is the name of the one before it.

    ``commit`` is what was checked out, ``modified`` whether files differed from it; ``texts`` the recipes' digests;
    ``duration_ns`` and ``store_bytes`` are what deriving it took, None where nobody measured.
    """

    made_by: str
    made_s: int
    why: str | None
    previous: str | None
    commit: str | None
    modified: bool
    texts: Mapping[str, Digest]
    evidence: Sequence[Mapping[str, Json]]
    duration_ns: int | None
    store_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A release that stands in the chain; ``is_new`` False where it stood there before."""

    entry: Entry
    is_new: bool


def require_name(name: str) -> None:
    """Refuse what no release can be called; raises InputErrors."""
    unfit = new_name_problem("candidate", name, "NAME", ())
    if unfit is not None:
        raise InputErrors([unfit])


def require_free(root: Path, name: str, recipe: str, previous: str | None) -> str | None:
    """Find out before anything is derived what would be refused; return the release before this one.

    That is the one named, else the last of the same recipe, else None.

    Raises:
        InputErrors: when the chain is broken or not as it was committed, the name is another's or would be taken for
            a record, or there is no such release before.
    """
    files = files_below(root)
    chain = sound(files)
    require_held(root)
    stems = [one.file.removesuffix(".json") for one in chain.entries]
    unfit = None if chain.candidate(name) else new_name_problem("candidate", name, "NAME", stems)
    if unfit is not None:
        raise InputErrors([unfit])
    taken = chain.of(name, "historical")
    if taken:
        raise InputErrors.one(f"the name {name!r} is taken", where=taken[0].where, hint="choose another")
    candidate = chain.candidate(name)
    if candidate is not None:
        known_of(candidate, files)  # whoever asks for it again is told what became of it
    if previous is not None and chain.candidate(previous) is None:
        raise InputErrors.one(f"no release is called {previous!r}", where="--previous", hint="derive releases --all")
    if previous is not None:
        return previous
    return _last_of(chain, files, recipe, name)


def write_release(root: Path, name: str, release: Release, facts: Facts, decision: Decision) -> Made:
    """Write the documents and the record of a release; what stands there already is returned.

    Raises:
        InputErrors: when the name is another release's, or the release stands there under another name.
        HostRefuses: when it cannot be written.
    """
    data = {RELEASE_FILE: release.encoded(), FACTS_FILE: facts.encoded()}
    with alone(root):
        files = files_below(root)
        chain = sound(files)
        before = _standing(chain, name, release)
        if before is not None:
            return Made(entry=before, is_new=False)
        for file, content in data.items():
            _put(root / FOLDER / name / file, content)
        path = append_to(root, chain, "candidate", name, _body(release, data, decision))
        made = sound({**files, path.name: path.read_bytes()}).candidate(name)
        assert made is not None
        return Made(entry=made, is_new=True)


def _standing(chain: Chain, name: str, release: Release) -> Entry | None:
    """Return the record that says the same already; refuse a name that is taken, and a release that has one."""
    digest = str(release.digest)
    for entry in chain.entries:
        record = entry.record
        if record.kind not in ("candidate", "historical"):
            continue
        known = record.body.get("release")
        if record.subject == name and known == digest:
            return entry
        if record.subject == name:
            detail = expected_got(known or "a historical record", digest)
            hint = "records are never changed: choose another name"
            raise InputErrors.one(f"the name {name!r} is taken", where=entry.where, detail=detail, hint=hint)
        if known == digest:
            hint = f"it is there already: derive records show {record.subject}"
            raise InputErrors.one(f"this release is {record.subject!r} already", where=entry.where, hint=hint)
    return None


def _body(release: Release, data: Mapping[str, bytes], decision: Decision) -> dict[str, Json]:
    return {
        "release": str(release.digest),
        "documents": {file: str(sha256(content)) for file, content in data.items()},
        "images": {platform: str(image.digest) for platform, image in release.images.items()},
        "previous_release": decision.previous,
        "made_by": decision.made_by,
        "made_s": decision.made_s,
        "why": decision.why,
        "commit": decision.commit,
        "modified": decision.modified,
        "texts": {path: found.hex for path, found in decision.texts.items()},
        "evidence": list(decision.evidence),
        "cost": {"duration_ns": decision.duration_ns, "store_bytes": decision.store_bytes},
    }


def _put(path: Path, data: bytes) -> None:
    """Write a document that no record names yet, in place of what a killed process left."""
    with suppress(FileNotFoundError):
        if path.read_bytes() == data:
            return
        path.unlink()
    write_new(path, data)


def _last_of(chain: Chain, files: Mapping[str, bytes], recipe: str, name: str) -> str | None:
    """Return the last release of a recipe; the documents are only looked at for the recipe's name."""
    for entry in reversed(chain.entries):
        data = files.get(f"{entry.record.subject}/{RELEASE_FILE}")
        if entry.record.kind != "candidate" or entry.record.subject == name or data is None:
            continue
        try:
            document = decode(data)
        except ValueError as error:
            where = place(f"{entry.record.subject}/{RELEASE_FILE}")
            raise InputErrors.one(str(error), where=where, hint="derive records verify") from error
        said = document.get("recipe") if isinstance(document, Mapping) else None
        if isinstance(said, Mapping) and said.get("name") == recipe:
            return entry.record.subject
    return None
