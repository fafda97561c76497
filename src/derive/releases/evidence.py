# SPDX-License-Identifier: Apache-2.0
"""Evidence for a release: records in ``records/`` that were measured or tested, each by the digest of its bytes.

Edge: reads the files that are named, below a project's folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from derive.canonical import Json, sha256
from derive.errors import InputErrors, Problem, expected_got
from derive.infile import read_plain
from derive.records.chain import FOLDER, Chain
from derive.records.model import RecordError, read_record
from derive.words import near, unreadable

_LARGEST = 256 << 20
_TOP = "records/"

KINDS: Mapping[str, str] = {
    "benchmark": "benchmark",
    "benchmark-report": "benchmark",
    "release-test": "release-test",
    "release-test-report": "release-test",
    "kernel-report": "kernel",
    "image-build": "image-build",
    "verify": "verify",
}
"""From the kind of a record to the kind of evidence that it is."""

_OF_A_SHAPE = ("benchmark", "release-test")


def read_evidence(root: Path, texts: Sequence[str], shapes: Collection[str]) -> list[dict[str, Json]]:
    """Read and judge ``FILE`` or ``FILE:SHAPE``, each a record below ``records/``; return entries as records have them.

    Raises:
        InputErrors: everything that is wrong with any of them.
    """
    problems: list[Problem] = []
    found: list[dict[str, Json]] = []
    for text in texts:
        file, separator, shape = text.partition(":")
        try:
            found.append(_entry(root, file, shape if separator else None, shapes))
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
                yield Problem(where=file, message=message, detail=expected_got(expected, got))


def _entry(root: Path, file: str, shape: str | None, shapes: Collection[str]) -> dict[str, Json]:
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
        raise InputErrors.one(
            f"no record: {error.message}", where=f"{file}: {error.key}" if error.key else file
        ) from error
    kind = KINDS.get(record.kind)
    if kind is None:
        detail = expected_got(" or ".join(sorted(KINDS)), record.kind)
        raise InputErrors.one("no record that can be evidence", where=f"{file}: kind", detail=detail)
    _judge_shape(file, kind, shape, shapes)
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
        if kind in _OF_A_SHAPE:
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
