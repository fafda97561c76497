# SPDX-License-Identifier: Apache-2.0
"""Audits over time: one record each, in a chain of its own.

Edge: reads and writes ``records/audits/`` of a project.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from derive.canonical import Digest, Json
from derive.errors import CheckFailed, InputErrors, expected_got
from derive.infile import read_plain
from derive.records.folder import write_new
from derive.records.model import Record, RecordError, read_record

FOLDER = "records/audits"
KIND = "audit"

_FILE = re.compile(r"(\d{4})-[a-z0-9][a-z0-9.-]*\.json")
_LARGEST = 1 << 26


def audits(root: Path) -> tuple[Record, ...]:
    """Return the records of a project's audits, the first one first.

    Raises:
        InputErrors: for a file that is no record.
        CheckFailed: when a record names another digest of the one before it: that was edited.
    """
    folder = root / FOLDER
    names = sorted(path.name for path in folder.iterdir() if _FILE.fullmatch(path.name)) if folder.is_dir() else []
    found: list[Record] = []
    before: Digest | None = None
    last = ""
    for number, name in enumerate(names, start=1):
        where = f"{FOLDER}/{name}"
        try:
            record = read_record(read_plain(folder / name, _LARGEST, follow=False)[0])
        except (RecordError, OSError) as error:
            raise InputErrors.one(str(error), where=where) from error
        if int(name.partition("-")[0]) != number:
            raise InputErrors.one(f"no record has the number {number:04d}", where=where)
        if record.previous != before:
            raise CheckFailed(
                f"edited since it was written: {name} names another digest of it" if last else "names one before it",
                where=last or where,
                detail=expected_got(record.previous or "null", before or "null"),
                hint=f"see what moved: git log -p -- {last or where}",
            )
        found.append(record)
        before, last = record.digest, where
    return tuple(found)


def add_audit(root: Path, release: str, body: Mapping[str, Json]) -> Path:
    """Write the next record, and return its path; raises as :func:`audits` does, or HostRefuses."""
    earlier = audits(root)
    record = Record(kind=KIND, subject=release, previous=earlier[-1].digest if earlier else None, body=body)
    path = root / FOLDER / f"{len(earlier) + 1:04d}-{release}.json"
    write_new(path, record.encoded() + b"\n")
    return path
