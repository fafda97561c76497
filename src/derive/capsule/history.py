# SPDX-License-Identifier: Apache-2.0
"""The score of re-derivability over time: one record a check, in a chain of its own.

Edge: reads and writes ``records/derivability/`` of a project.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from derive.canonical import Digest, Json
from derive.errors import CheckFailed, InputErrors, Problem, expected_got
from derive.infile import read_plain
from derive.records.folder import write_new
from derive.records.model import Record, RecordError, read_record
from derive.words import unreadable

FOLDER = "records/derivability"
KIND = "derivability"

_FILE = re.compile(r"(\d{4,})-[a-z0-9][a-z0-9.-]*\.json")
_LARGEST = 1 << 24


def scores(root: Path) -> tuple[Record, ...]:
    """Return the records of a project's checks, the first one first.

    Raises:
        InputErrors: for every file that is no record.
        CheckFailed: when a record names another digest of the one before it: that was edited.
    """
    problems: list[Problem] = []
    found: list[Record] = []
    before: Digest | None = None
    last = ""
    for number, name in enumerate(_names(root, problems), start=1):
        where = f"{FOLDER}/{name}"
        try:
            record = read_record(read_plain(root / FOLDER / name, _LARGEST, follow=False)[0])
        except RecordError as error:
            problems.append(Problem(where=where, message=str(error)))
            break
        except OSError as error:
            problems.append(Problem(where=where, message=unreadable(error)))
            break
        if int(name.partition("-")[0]) != number:
            problems.append(Problem(where=where, message=f"no record has the number {number:04d}"))
            break
        if record.previous != before:
            raise CheckFailed(
                f"edited since it was written: {name} names another digest of it" if last else "names one before it",
                where=last or where,
                detail=expected_got(record.previous or "null", before or "null"),
                hint=f"see what moved: git log -p -- {last or where}",
            )
        found.append(record)
        before, last = record.digest, where
    if problems:
        raise InputErrors(problems)
    return tuple(found)


def add_score(root: Path, release: str, body: Mapping[str, Json]) -> Path:
    """Write the next record, and return its path; raises as :func:`scores` does, or HostRefuses."""
    earlier = scores(root)
    previous = earlier[-1].digest if earlier else None
    record = Record(kind=KIND, subject=release, previous=previous, body=body)
    path = root / FOLDER / f"{len(earlier) + 1:04d}-{release}.json"
    write_new(path, record.encoded() + b"\n")
    return path


def _names(root: Path, problems: list[Problem]) -> list[str]:
    folder = root / FOLDER
    if not folder.is_dir():
        return []
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    problems += [
        Problem(where=f"{FOLDER}/{name}", message="not the name of a record")
        for name in names
        if not _FILE.fullmatch(name)
    ]
    return sorted((name for name in names if _FILE.fullmatch(name)), key=lambda name: int(name.partition("-")[0]))
