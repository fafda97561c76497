# SPDX-License-Identifier: Apache-2.0
"""From a release's name, digest or prefix to what is written down of it.

Edge: reads ``records/releases/`` of a project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import Digest, sha256
from derive.errors import InputErrors, RecordEdited, RecordGone, expected_got
from derive.operands import is_digest
from derive.records.chain import FACTS_FILE, FOLDER, RELEASE_FILE, Chain, Entry, place
from derive.records.find import DIGITS_HINT, there_is
from derive.records.folder import files_below, sound
from derive.releases.document import Release, read_release
from derive.releases.facts import Facts, read_facts
from derive.words import near

_VERIFY = "see what else was edited: derive records verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A release that a project has: its documents, whose hashes its record names, and that record."""

    name: str
    release: Release
    release_data: bytes
    facts_data: bytes
    entry: Entry

    @property
    def digest(self) -> Digest:
        """The release digest."""
        return sha256(self.release_data)

    @property
    def facts(self) -> Facts:
        """The release's facts, read when they are asked for."""
        return read_facts(self.facts_data)

    @property
    def commit(self) -> str | None:
        """The commit that was checked out when the release was made; None where there was no git."""
        commit = self.entry.record.body.get("commit")
        return commit if isinstance(commit, str) else None


def find_release(root: Path, operand: str) -> Known:
    """Return the release that a text names: a name, or a digest (or 12 or more digits of it) with or without its kind.

    Raises:
        InputErrors: when none or several are meant, it is a historical one, or the chain is broken.
        RecordGone, RecordEdited: when its documents are not there, or not as recorded.
    """
    files = files_below(root)
    chain = sound(files)
    return known_of(entry_of(chain, operand.removeprefix("release:")), files)


def known_releases(root: Path) -> tuple[Known, ...]:
    """Return every release of a project that has documents, in the chain's order; raises as above."""
    files = files_below(root)
    return tuple(known_of(entry, files) for entry in sound(files).entries if entry.record.kind == "candidate")


def known_of(entry: Entry, files: Mapping[str, bytes], *, without_facts: bool = False) -> Known:
    """Return the release that a candidate's record made, its documents held against the hashes in that.

    ``without_facts`` for whoever asks nothing of them, and tells their faults otherwise: they are not held then.

    Raises:
        RecordGone, RecordEdited: when one is not there, or is another.
    """
    data = {RELEASE_FILE: _document(entry, RELEASE_FILE, files)}
    data[FACTS_FILE] = b"" if without_facts else _document(entry, FACTS_FILE, files)
    where = place(f"{entry.record.subject}/{RELEASE_FILE}")
    try:
        release = read_release(data[RELEASE_FILE])
    except ValueError as error:
        raise RecordEdited(f"cannot be read: {error}", where=where, hint=_VERIFY) from error
    return Known(
        name=entry.record.subject,
        release=release,
        release_data=data[RELEASE_FILE],
        facts_data=data[FACTS_FILE],
        entry=entry,
    )


def _document(entry: Entry, name: str, files: Mapping[str, bytes]) -> bytes:
    path = f"{entry.record.subject}/{name}"
    documents = entry.record.body["documents"]
    assert isinstance(documents, Mapping)
    data = files.get(path)
    if data is None:
        hint = f"bring it back: git log --diff-filter=D -- {place(path)}"
        raise RecordGone(f"no such file, and {entry.file} names it", where=place(path), hint=hint)
    if str(sha256(data)) != documents[name]:
        detail = expected_got(documents[name], sha256(data))
        raise RecordEdited(f"not what {entry.file} names: edited since", where=place(path), detail=detail, hint=_VERIFY)
    return data


def entry_of(chain: Chain, text: str) -> Entry:
    """Return the record that made the release which a text names; raises InputErrors as :func:`find_release` does."""
    candidates = [entry for entry in chain.entries if entry.record.kind == "candidate"]
    named = next((entry for entry in candidates if entry.record.subject == text), None)
    if named is not None:
        return named
    if chain.of(text, "historical"):
        message = f"{text} is a historical record: what it was made of is not known, and nothing can be derived from it"
        raise InputErrors.one(message, hint=f"what is known of it: derive records show {text}")
    prefix = text.removeprefix("sha256:")
    found = [entry for entry in candidates if is_digest(prefix) and _digest(entry).startswith(prefix)]
    if len(found) == 1:
        return found[0]
    if found:
        detail = [f"may be    {_digest(entry)}  {entry.record.subject}" for entry in found]
        raise InputErrors.one(f"{text} is ambiguous", detail=detail, hint="give more digits")
    every = {entry.record.subject for entry in chain.entries if entry.record.kind in ("candidate", "historical")}
    hint = near(text, every) or there_is(chain) or "make one: derive release NAME --recipe R"
    if prefix and not prefix.strip("0123456789abcdef") and not is_digest(prefix):
        hint = DIGITS_HINT
    raise InputErrors.one(f"no release is called {text!r}", where=FOLDER, hint=hint)


def _digest(entry: Entry) -> str:
    return str(entry.record.body["release"]).removeprefix("sha256:")
