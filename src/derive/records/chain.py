# SPDX-License-Identifier: Apache-2.0
"""The chain of records: each names the digest of the one before it, so that no earlier one can be edited unseen.

Core: no IO.

Files are given by their path below ``records/releases/``: ``0012-probe-1.json`` is a record, and a folder
``probe-1/`` holds the documents of a release.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import Digest
from derive.errors import Problem, expected_got
from derive.records.kinds import NAME, body_problems
from derive.records.model import Record, RecordError, read_record

FOLDER = "records/releases"
RELEASE_FILE = "release.json"
FACTS_FILE = "facts.json"
DOCUMENTS = (RELEASE_FILE, FACTS_FILE)

_FILE = re.compile(r"([0-9]{4})-([a-z0-9][a-z0-9.-]*)\.json")
_LAST = 9999


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record of the chain: its number from 1, its file's name below ``records/releases/``, and its digest."""

    number: int
    file: str
    record: Record
    digest: Digest

    def __hash__(self) -> int:
        return hash((self.file, self.digest))

    @property
    def where(self) -> str:
        """The file's path below the project."""
        return place(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The records by number. ``problems`` are files that are no record of a chain; they are not among the entries."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def head(self) -> Digest | None:
        """The digest of the last record."""
        return self.entries[-1].digest if self.entries else None

    def of(self, subject: str, *kinds: str) -> tuple[Entry, ...]:
        """Return the records about a subject, of some kinds where any are named, in the chain's order."""
        return tuple(
            entry
            for entry in self.entries
            if entry.record.subject == subject and (not kinds or entry.record.kind in kinds)
        )

    def candidate(self, name: str) -> Entry | None:
        """Return the record that made a release, None where there is none of that name."""
        return next(iter(self.of(name, "candidate")), None)


def place(file: str) -> str:
    """Return the path below the project of a file of the chain's folder."""
    return f"{FOLDER}/{file}"


def file_name(number: int, subject: str, suffix: str | None = None) -> str:
    """Return what the file of a record is called; the suffix tells apart what is about one subject."""
    return f"{number:04d}-{subject}{'' if suffix is None else f'-{suffix}'}.json"


def read_chain(files: Mapping[str, bytes]) -> Chain:
    """Read every record among some files; what cannot be read is said in ``problems``, and nothing raises."""
    entries: list[Entry] = []
    problems: list[Problem] = []
    for file in sorted(path for path in files if "/" not in path):
        found = _FILE.fullmatch(file)
        if found is None:
            hint = "records are called NNNN-<name>.json, and nothing else lies among them"
            problems.append(Problem(where=place(file), message="not the name of a record", hint=hint))
            continue
        try:
            record = read_record(files[file])
        except RecordError as error:
            where = f"{place(file)}: {error.key}" if error.key else place(file)
            problems.append(Problem(where=where, message=error.message, detail=error.detail, hint=error.hint))
            continue
        entries.append(Entry(number=int(found[1]), file=file, record=record, digest=record.digest))
    return Chain(entries=tuple(entries), problems=tuple(problems))


def verify(chain: Chain, files: Mapping[str, bytes]) -> list[Problem]:
    """Say everything that is wrong with a chain and its documents; empty where nothing is."""
    from derive.records.documents import document_problems

    return [*chain_problems(chain, files), *document_problems(chain, files)]


def chain_problems(chain: Chain, files: Mapping[str, bytes], published: Collection[str] | None = None) -> list[Problem]:
    """Say what is wrong with the records themselves; the documents of releases are not looked at.

    ``published`` names the records that others have with the same bytes, None where nobody knows: those keep their
    numbers.
    """
    problems = [*chain.problems, *_number_problems(chain, published), *_link_problems(chain)]
    for entry in chain.entries:
        problems += _form_problems(entry, files[entry.file])
    return [*problems, *_reference_problems(chain)]


def _number_problems(chain: Chain, published: Collection[str] | None) -> Iterator[Problem]:
    """Yield numbers that two records have, and those that none has."""
    by_number = _by_number(chain)
    unread = {int(name[1]) for one in chain.problems if (name := _FILE.fullmatch(_file_of(one))) is not None}
    for number in sorted(set(range(1, max(by_number, default=0) + 1)) - by_number.keys() - unread):
        message = f"no record has the number {number:04d}, and later ones are there"
        hint = f"bring it back: git log --diff-filter=D --name-only -- {FOLDER}"
        yield Problem(where=FOLDER, message=message, hint=hint)
    for entries in by_number.values():
        yield from _of_one_number(entries, published)


def _of_one_number(entries: Sequence[Entry], published: Collection[str] | None) -> Iterator[Problem]:
    """Yield each record but one that has another's number; the one that keeps it is published, where any is."""
    theirs = [one for one in entries if one.file in (published or ())]
    first, *others = [*theirs, *(one for one in entries if one not in theirs)]
    for other in others:
        what = "it"
        if published is not None and (other in theirs or not theirs):
            what = "one of them"  # nothing says which
        detail = [f"also      {first.file}"]
        if published is not None:
            detail.append(f"published {', '.join(one.file for one in theirs) or 'none of them'}")
        message = f"two records have the number {first.number:04d}: each followed the same one, on a branch of its own"
        hint = f"put {what} after all others: derive records renumber {other.file.removesuffix('.json')}"
        yield Problem(where=other.where, message=message, detail=tuple(detail), hint=hint)


def _by_number(chain: Chain) -> dict[int, list[Entry]]:
    found: dict[int, list[Entry]] = {}
    for entry in chain.entries:
        found.setdefault(entry.number, []).append(entry)
    return found


def _file_of(problem: Problem) -> str:
    return problem.where.partition(":")[0].removeprefix(f"{FOLDER}/")


def _link_problems(chain: Chain) -> Iterator[Problem]:
    """Yield each record whose digest is not the one that the next names: it was edited, or the next one was."""
    by_number = _by_number(chain)
    edited: set[Entry] = set()
    for entry in reversed(chain.entries):
        previous, before = entry.record.previous, by_number.get(entry.number - 1, [])
        if entry.number == 1 and previous is not None:
            detail = expected_got("null", previous)
            yield Problem(where=f"{entry.where}: previous", message="the first record has one before it", detail=detail)
        if not before or previous in [one.digest for one in before]:
            continue
        if entry in edited:
            continue  # said already, and what an edited record names says nothing of the one before it
        edited.add(before[0])
        yield Problem(
            where=before[0].where,
            message=f"edited since it was written: {entry.file} names another digest of it",
            detail=expected_got(previous or "null", before[0].digest),
            hint=f"see what moved: git log -p -- {before[0].where}",
        )


def _form_problems(entry: Entry, data: bytes) -> Iterator[Problem]:
    """Yield what is wrong with one record: its bytes, its name, its body."""
    record = entry.record
    if data != record.encoded() + b"\n":
        message = "not the canonical bytes of this record and a line feed"
        yield Problem(where=entry.where, message=message, hint="docs/formats/canonical.md")
    if not NAME.fullmatch(record.subject):
        yield Problem(where=f"{entry.where}: subject", message="not a name", detail=(f"got       {record.subject!r}",))
    stem = f"{entry.number:04d}-{record.subject}"
    if entry.file != f"{stem}.json" and not entry.file.startswith(f"{stem}-"):
        detail = expected_got(f"{stem}.json or {stem}-<word>.json", entry.file)
        yield Problem(where=entry.where, message="a file's name that its subject does not have", detail=detail)
    yield from body_problems(record.kind, record.body, entry.where)


def _reference_problems(chain: Chain) -> Iterator[Problem]:
    """Yield each mention of a release that no earlier record made."""
    made: dict[str, Entry] = {}
    for entry in chain.entries:
        record = entry.record
        for key, name in _named(record):
            if name not in made:
                message = f"no earlier record makes a release {name!r}"
                yield Problem(where=f"{entry.where}: {key}", message=message)
        candidate = made.get(record.subject)
        if record.kind == "promoted" and candidate is not None:
            expected, got = candidate.record.body.get("release"), record.body.get("release")
            if expected != got:
                message = f"not the digest of {record.subject}"
                detail = expected_got(expected, got)
                yield Problem(where=f"{entry.where}: body.release", message=message, detail=detail)
        if record.kind in ("candidate", "historical"):
            if candidate is not None:
                message = f"a second release of the name {record.subject!r}"
                yield Problem(where=entry.where, message=message, detail=(f"first     {candidate.file}",))
            made.setdefault(record.subject, entry)


def _named(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the releases that a record names, each with the key that does."""
    match record.kind:
        case "promoted":
            yield "subject", record.subject
        case "candidate":
            keys: tuple[str, ...] = ("previous_release",)
            yield from _said(record.body, keys)
        case "retired":
            yield from _said(record.body, ("release",))
        case "experiment":
            yield from _said(record.body, ("base", "candidate"))
        case _:
            return


def _said(body: Mapping[str, object], keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for key in keys:
        value = body.get(key)
        if isinstance(value, str):
            yield f"body.{key}", value


def next_number(chain: Chain) -> int:
    """Return the number of the next record; raises ValueError when there can be none."""
    number = max((entry.number for entry in chain.entries), default=0) + 1
    if number > _LAST:
        raise ValueError("the chain has all the records that four digits number")
    return number
