# SPDX-License-Identifier: Apache-2.0
"""What is recorded time and again: one record each, numbered, in a folder and a chain of its own.

Edge: reads and writes folders below ``records/`` of a project.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import Digest, Json
from derive.errors import CheckFailed, InputErrors, Problem, expected_got
from derive.infile import read_plain
from derive.records.folder import write_new
from derive.records.model import Record, RecordError, read_record
from derive.words import unreadable

_FILE = re.compile(r"(\d{4,})-[a-z0-9][a-z0-9.-]*\.json")
_LARGEST = 1 << 26


@dataclass(frozen=True, slots=True)
class Numbered:
    """A folder below a project, and the kind of the records in it."""

    folder: str
    kind: str

    def read(self, root: Path) -> tuple[Record, ...]:
        """Return the records of a project, the first one first.

        Raises:
            InputErrors: for every file that is no record.
            CheckFailed: when a record names another digest of the one before it: that was edited.
        """
        problems: list[Problem] = []
        found: list[Record] = []
        before: Digest | None = None
        last = ""
        for number, name in enumerate(self._names(root, problems), start=1):
            where = f"{self.folder}/{name}"
            try:
                record = read_record(read_plain(root / self.folder / name, _LARGEST, follow=False)[0])
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
                edited = f"edited since it was written: {name} names another digest of it"
                raise CheckFailed(
                    edited if last else "names one before it",
                    where=last or where,
                    detail=expected_got(record.previous or "null", before or "null"),
                    hint=f"see what moved: git log -p -- {last or where}",
                )
            found.append(record)
            before, last = record.digest, where
        if problems:
            raise InputErrors(problems)
        return tuple(found)

    def add(self, root: Path, subject: str, body: Mapping[str, Json]) -> Path:
        """Write the next record, and return its path; raises as :meth:`read` does, or HostRefuses."""
        earlier = self.read(root)
        previous = earlier[-1].digest if earlier else None
        record = Record(kind=self.kind, subject=subject, previous=previous, body=body)
        path = root / self.folder / f"{len(earlier) + 1:04d}-{subject}.json"
        write_new(path, record.encoded() + b"\n")
        return path

    def _names(self, root: Path, problems: list[Problem]) -> list[str]:
        folder = root / self.folder
        if not folder.is_dir():
            return []
        names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
        problems += [
            Problem(where=f"{self.folder}/{name}", message="not the name of a record")
            for name in names
            if not _FILE.fullmatch(name)
        ]
        return sorted((name for name in names if _FILE.fullmatch(name)), key=lambda name: int(name.partition("-")[0]))


AUDITS = Numbered("records/audits", "audit")
SCORES = Numbered("records/derivability", "derivability")
