# SPDX-License-Identifier: Apache-2.0
"""Evidence for a release: records in ``records/`` that were measured or tested, each by the digest of its bytes.

Edge: reads the files that are named, below a project's folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from derive.canonical import Json, sha256
from derive.errors import InputErrors, Problem, expected_got
from derive.infile import read_plain
from derive.records.chain import FOLDER, Chain, Entry
from derive.records.model import RecordError, read_record
from derive.releases.speaks import KINDS, OF_A_SHAPE, About, speaks_problems
from derive.words import near, unreadable

_LARGEST = 256 << 20
_TOP = "records/"


def read_evidence(
    root: Path, texts: Sequence[str], shapes: Collection[str], about: About | None = None
) -> list[dict[str, Json]]:
    """Read and judge ``FILE`` or ``FILE:SHAPE``, each a record below ``records/``; return entries as records have them.

    ``about`` is the release that they speak for; None where it is still to be derived (:func:`require_about`).

    Raises:
        InputErrors: everything that is wrong with any of them.
    """
    problems: list[Problem] = []
    found: list[dict[str, Json]] = []
    for text in texts:
        file, separator, shape = text.partition(":")
        try:
            found.append(_entry(root, file, shape if separator else None, shapes, about))
        except InputErrors as error:
            problems += error.problems()
    if problems:
        raise InputErrors(problems)
    by_use = {(str(one["file"]), str(one["shape"] or "")): one for one in found}
    return [by_use[key] for key in sorted(by_use)]


def evidence_problems(root: Path, chain: Chain) -> Iterator[Problem]:
    """Yield each piece of evidence that a record names and that is not there, or is other than it was."""
    told: set[tuple[str, str]] = set()
    for entry in chain.entries:
        evidence = entry.record.body.get("evidence")
        for index, one in enumerate(evidence if isinstance(evidence, list | tuple) else ()):
            if not isinstance(one, Mapping) or not isinstance(one.get("file"), str):
                continue
            file, expected = str(one["file"]), str(one["digest"])
            if (file, expected) in told:
                continue
            told.add((file, expected))
            try:
                got = str(sha256(read_plain(root / file, _LARGEST, follow=False)[0]))
            except OSError as error:
                message = f"evidence of {entry.file}: {unreadable(error)}"
                yield Problem(where=file, message=message, hint=f"bring it back: git log --diff-filter=D -- {file}")
                continue
            if got != expected:
                message = f"not what {entry.file} names as evidence {index}: edited since"
                hint = f"bring it back: git log -- {file}"
                yield Problem(where=file, message=message, detail=expected_got(expected, got), hint=hint)
                continue
            yield from _of_entry(root, one, _about(entry))


def _about(entry: Entry) -> About | None:
    """Return the release that a record speaks of, by what the record itself says; None where it does not."""
    body = entry.record.body
    images, image, release = body.get("images"), body.get("image"), body.get("release")
    if not isinstance(release, str):
        return None
    known = [str(one) for one in images.values()] if isinstance(images, Mapping) else [str(image)]
    return About(name=entry.record.subject, release=release, images=known)


def require_about(root: Path, entries: Iterable[Mapping[str, Json]], about: About) -> None:
    """Refuse evidence that says that it is of another release or image; raises InputErrors with all of it."""
    problems = [problem for one in entries if one["kind"] != "waiver" for problem in _of_entry(root, one, about)]
    if problems:
        raise InputErrors(problems)


def _of_entry(root: Path, one: Mapping[str, Json], about: About | None) -> Iterator[Problem]:
    """Yield why a file that a record names as evidence is none, as its bytes are now."""
    file, shape = str(one["file"]), one.get("shape")
    try:
        record = read_record(read_plain(root / file, _LARGEST, follow=False)[0])
    except OSError as error:
        yield Problem(where=file, message=unreadable(error))
    except RecordError as error:
        yield Problem(where=file, message=f"no record: {error.message}", detail=error.detail, hint=error.hint)
    else:
        if KINDS.get(record.kind) != one["kind"]:
            detail = expected_got(one["kind"], record.kind)
            hint = "name a record of that kind"
            yield Problem(where=f"{file}: kind", message="evidence of another kind", detail=detail, hint=hint)
        else:
            yield from speaks_problems(record, shape if isinstance(shape, str) else None, about, file)


def _entry(root: Path, file: str, shape: str | None, shapes: Collection[str], about: About | None) -> dict[str, Json]:
    path = _below(root, file)
    try:
        data, _ = read_plain(root / path, _LARGEST, follow=False)
    except (OSError, ValueError) as error:
        message = unreadable(error) if isinstance(error, OSError) else "no name of a file"
        raise InputErrors.one(
            message, where=file, hint="evidence is a record: records/FILE or records/FILE:SHAPE"
        ) from error
    try:
        record = read_record(data)
    except RecordError as error:
        where = f"{file}: {error.key}" if error.key else file
        raise InputErrors.one(
            f"no record: {error.message}", where=where, detail=error.detail, hint=error.hint
        ) from error
    kind = KINDS.get(record.kind)
    if kind is None:
        detail = expected_got(" or ".join(sorted(KINDS)), record.kind)
        raise InputErrors.one("no record that can be evidence", where=f"{file}: kind", detail=detail)
    _judge_shape(file, kind, shape, shapes)
    problems = list(speaks_problems(record, shape, about, path))
    if problems:
        raise InputErrors(problems)
    return {
        "kind": kind,
        "digest": str(sha256(data)),
        "file": path,
        "shape": shape,
        "reason": None,
        "expires_s": None,
    }


def _below(root: Path, file: str) -> str:
    """Return a file's path below the project; refuse what lies elsewhere: it would not be committed with the record."""
    try:
        # As a person typed it, below the project or below the folder that they are in.
        path = next((one for one in (root / file, Path(file)) if one.exists()), root / file).resolve()
        inside = path.relative_to(root.resolve()).as_posix()
    except (OSError, ValueError) as error:
        hint = "copy it below records/ first"
        raise InputErrors.one(
            "does not lie in the project, whose records are kept together", where=file, hint=hint
        ) from error
    if not inside.startswith(_TOP) or inside.startswith(f"{FOLDER}/"):
        hint = "reports lie below records/, beside records/releases/"
        raise InputErrors.one("not below records/, where evidence is kept", where=file, hint=hint)
    return inside


def _judge_shape(file: str, kind: str, shape: str | None, shapes: Collection[str]) -> None:
    if shape is None:
        if kind in OF_A_SHAPE:
            hint = f"say which, of {', '.join(sorted(shapes))}: --evidence {file}:SHAPE"
            raise InputErrors.one(f"a {kind} is evidence for one shape", where=file, hint=hint)
    elif shape not in shapes:
        hint = near(shape, shapes) or f"there is {', '.join(sorted(shapes))}"
        raise InputErrors.one(f"no shape {shape!r} in this recipe", where=f"{file}:{shape}", hint=hint)


def read_waivers(
    texts: Sequence[str], expires: str | None, shapes: Collection[str], now_s: int
) -> list[dict[str, Json]]:
    """Read each ``SHAPE=REASON``, all until one day; return entries as records have them.

    Raises:
        InputErrors: everything that is wrong with any of them.
    """
    from derive.promotion.evidence import read_waiver, waiver_entry

    problems: list[Problem] = []
    found: list[dict[str, Json]] = []
    if expires is not None and not texts:
        problems.append(Problem(where="--expires", message="nothing is waived", hint="say what: --waive SHAPE=REASON"))
    for text in texts:
        shape, separator, reason = text.partition("=")
        if not separator or shape not in shapes:
            hint = f"write SHAPE=REASON, the shape one of {', '.join(sorted(shapes))}"
            problems.append(Problem(where="--waive", message=f"names no shape: {text!r}", hint=hint))
            continue
        try:
            waiver = read_waiver(shape, reason, expires, now_s)
        except InputErrors as error:
            problems += error.problems()
            continue
        if waiver is not None:
            found.append(waiver_entry(waiver))
    if problems:
        raise InputErrors(problems)
    return found
