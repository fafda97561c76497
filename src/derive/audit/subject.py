# SPDX-License-Identifier: Apache-2.0
"""What is audited: a release found by a name, a digest or a record, in a project's chain or in a capsule.

Edge: a project's folder, a capsule.

A chain that was edited is no reason to stop here, as it is elsewhere: that it was is what an audit is to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import Digest
from derive.errors import Corrupt, InputErrors, Missing, Problem, expected_got
from derive.operands import is_digest
from derive.records.chain import FACTS_FILE, RELEASE_FILE, Chain, Entry, read_chain
from derive.records.model import Record, RecordError, read_record
from derive.releases.find import Known, known_of
from derive.words import near

if TYPE_CHECKING:
    from derive.capsule.model import CapsuleDocument
    from derive.capsule.read import Capsule

_MIXED = "records/releases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A release, and all that is at hand of it.

    ``files`` are those of the chain that it was found in, by path below ``records/releases/``; ``root`` the project,
    None where it was found in a capsule. ``problems`` are why its documents could not be read, when ``known`` is None.
    """

    name: str
    known: Known | None
    chain: Chain
    files: Mapping[str, bytes]
    root: Path | None
    capsule: Capsule | None = None
    document: CapsuleDocument | None = None
    problems: tuple[Problem, ...] = ()


def find_subject(operand: str, root: Path | None, capsule: Capsule | None) -> Subject:
    """Return what an operand names: in the project where it is there, else in the capsule.

    Raises:
        InputErrors: when nothing has that name, it is no release that derives, or the capsule is of other releases.
        Corrupt, Missing: when the capsule cannot be read.
    """
    text, folder = _named(operand.removeprefix("release:"))
    root = folder or root
    if root is not None:
        found = _in_project(text, root)
        if found is not None or capsule is None:
            return _with_capsule(found or _nowhere(text, root), capsule)
    if capsule is None:
        hint = "go to the project, or name a capsule of it: --capsule FILE"
        raise InputErrors.one(f"no project is here, and nothing says what {text} is", hint=hint)
    return _in_capsule(text, capsule)


def _named(text: str) -> tuple[str, Path | None]:
    """Return the name of a release, and the project of the record where the text is a record's file."""
    path = Path(text)
    if not text.endswith(".json") or not path.is_file():
        return text, None
    try:
        record = read_record(path.read_bytes())
    except (RecordError, OSError) as error:
        raise InputErrors.one(f"not a record: {error}", where=text) from error
    folder = path.absolute().parent
    in_chain = folder.as_posix().endswith(f"/{_MIXED}")
    return _release_name(record), folder.parents[1] if in_chain else None


def _release_name(record: Record) -> str:
    return str(record.body.get("release")) if record.kind == "retired" else record.subject


def _in_project(text: str, root: Path) -> Subject | None:
    from derive.records.folder import files_below

    files = files_below(root)
    chain = read_chain(files)
    entry = _entry(chain, text)
    return None if entry is None else _subject(entry, chain, files, root)


def _subject(entry: Entry, chain: Chain, files: Mapping[str, bytes], root: Path | None) -> Subject:
    known: Known | None = None
    problems: tuple[Problem, ...] = ()
    try:
        known = known_of(entry, files)
    except (Corrupt, Missing) as error:
        problems = error.problems()
    except (KeyError, AssertionError):
        problems = (Problem(where=entry.where, message="the record of a release, and it names no documents"),)
    name = entry.record.subject
    return Subject(name=name, known=known, chain=chain, files=files, root=root, problems=problems)


def _entry(chain: Chain, text: str) -> Entry | None:
    candidates = [entry for entry in chain.entries if entry.record.kind == "candidate"]
    named = [entry for entry in candidates if entry.record.subject == text]
    if named:
        return named[0]
    if text.isascii() and text.isdecimal() and len(text) <= 4:
        numbered = next((one.record for one in chain.entries if one.number == int(text)), None)
        if numbered is not None:
            return _entry(chain, _release_name(numbered))
    if chain.of(text, "historical"):
        message = f"{text} is a historical record: what it was made of is not known, and nothing can be derived from it"
        raise InputErrors.one(message, hint=f"what is known of it: derive records show {text}")
    prefix = text.removeprefix("sha256:")
    if not is_digest(prefix):
        return None
    found = [entry for entry in candidates if _digest(entry).startswith(prefix)]
    if len({_digest(entry) for entry in found}) > 1:
        detail = [f"may be    {_digest(entry)}  {entry.record.subject}" for entry in found]
        raise InputErrors.one(f"{text} is ambiguous", detail=detail, hint="give more digits")
    return found[0] if found else None


def _digest(entry: Entry) -> str:
    return str(entry.record.body.get("release")).removeprefix("sha256:")


def _nowhere(text: str, root: Path) -> Subject:
    from derive.records.folder import files_below

    names = sorted(
        one.record.subject for one in read_chain(files_below(root)).entries if one.record.kind == "candidate"
    )
    hint = near(text, names) or (f"there is {', '.join(names)}" if names else "name a capsule of it: --capsule FILE")
    if len(text) >= 6 and not text.removeprefix("sha256:").strip("0123456789abcdef") and not is_digest(text):
        hint = "of a digest, give 12 or more digits"
    raise InputErrors.one(f"no release is called {text!r}", where=_MIXED, hint=hint)


def _with_capsule(subject: Subject, capsule: Capsule | None) -> Subject:
    """Add the capsule's document of the same release; of other releases it is refused."""
    if capsule is None or subject.known is None:
        return subject
    digest = subject.known.digest
    document = next((one for one in capsule.releases if one.release == digest), None)
    if document is None:
        raise _other(capsule, f"{subject.name} {digest}")
    return Subject(
        name=subject.name,
        known=subject.known,
        chain=subject.chain,
        files=subject.files,
        root=subject.root,
        capsule=capsule,
        document=document,
    )


def _other(capsule: Capsule, wanted: str) -> InputErrors:
    held = [f"{one.name} {one.release}" for one in capsule.releases]
    return InputErrors.one(
        "a capsule of another release",
        where=capsule.where,
        detail=expected_got(wanted, ", ".join(held) or "none"),
        hint="name a capsule of this one: derive capsule create makes it",
    )


def _in_capsule(text: str, capsule: Capsule) -> Subject:
    """Return a release as a capsule has it, with its records, which are a part of the chain of then."""
    from derive.capsule.model import FACTS, RECORD, RELEASE

    prefix = text.removeprefix("sha256:")
    found = [
        one
        for one in capsule.releases
        if one.name == text or (is_digest(prefix) and one.release.hex.startswith(prefix))
    ]
    if not found:
        raise _other(capsule, text)
    document = found[0]
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for kind, file in ((RECORD, None), (RELEASE, RELEASE_FILE), (FACTS, FACTS_FILE)):
        for name, digest in document.of(kind).items():
            try:
                files[name if file is None else f"{document.name}/{file}"] = capsule.small(digest)
            except (Corrupt, Missing) as error:
                problems += [_of_use(one, f"{kind} {name}") for one in error.problems()]
    chain = read_chain(files)
    entry = chain.candidate(document.name)
    if entry is None:
        problems = problems or [Problem(where=capsule.where, message=f"no record of {document.name} is in the capsule")]
        return Subject(
            name=document.name, known=None, chain=chain, files=files, root=None,
            capsule=capsule, document=document, problems=tuple(problems),
        )  # fmt: skip
    subject = _subject(entry, chain, files, None)
    if subject.known is not None and subject.known.digest != document.release:
        detail = expected_got(document.release, subject.known.digest)
        problems.append(Problem(where=capsule.where, message="the capsule names another release", detail=detail))
    return Subject(
        name=subject.name, known=subject.known, chain=chain, files=files, root=None,
        capsule=capsule, document=document, problems=(*problems, *subject.problems),
    )  # fmt: skip


def _of_use(problem: Problem, what: str) -> Problem:
    return Problem(where=problem.where, message=f"{what}: {problem.message}", detail=problem.detail, hint=problem.hint)


def release_of(subject: Subject) -> Digest | None:
    """Return the subject's digest; where its documents cannot be read, the one that capsule or record name."""
    if subject.known is not None:
        return subject.known.digest
    if subject.document is not None:
        return subject.document.release
    entry = subject.chain.candidate(subject.name)
    try:
        return Digest.parse(str(entry.record.body.get("release"))) if entry is not None else None
    except ValueError:
        return None
