# SPDX-License-Identifier: Apache-2.0
"""What moved between two locks of a set, as rows.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from derive.canonical import Json, encode
from derive.lock.documents import DebEntry, Lock, LockEntry, SourceEntry, WheelEntry
from derive.lock.upstreams.entries import (
    GitEntry,
    HuggingFaceEntry,
    OciEntry,
    UrlEntry,
    WatchEntry,
    entry_json,
)
from derive.words import size_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One package that moved, came (``old`` None) or went (``new`` None).

    Where architectures or targets differ, versions are joined by commas; sizes are bytes over all of them.
    """

    name: str
    type: str
    old: str | None
    new: str | None
    size_old: int | None
    size_new: int | None
    licence_old: str | None
    licence_new: str | None

    @property
    def bytes_only(self) -> bool:
        """Whether the version stands and the files do not."""
        return self.old == self.new

    def to_json(self) -> dict[str, Json]:
        """Return the row for machine-readable output."""
        return {
            "name": self.name,
            "type": self.type,
            "old": self.old,
            "new": self.new,
            "size_old_bytes": self.size_old,
            "size_new_bytes": self.size_new,
            "licence_old": self.licence_old,
            "licence_new": self.licence_new,
        }


MOVE_HEADER = ("package", "kind", "old", "new", "size", "licence")


def moves(old: Lock | None, new: Lock) -> tuple[Move, ...]:
    """Return what differs between two locks, sorted by name."""
    before, after = _grouped(old), _grouped(new)
    found = []
    for key in sorted({*before, *after}):
        was, now = before.get(key, []), after.get(key, [])
        if _identity(was) != _identity(now):
            found.append(
                Move(
                    name=key[0],
                    type=key[1],
                    old=_versions(was),
                    new=_versions(now),
                    size_old=_size(was),
                    size_new=_size(now),
                    licence_old=_licences(was),
                    licence_new=_licences(now),
                )
            )
    return tuple(found)


def move_rows(found: Sequence[Move]) -> tuple[tuple[str, ...], ...]:
    """Return the rows of a table under :data:`MOVE_HEADER`, as text."""
    rows = []
    for move in found:
        new = "same version, other files" if move.bytes_only else move.new or "removed"
        rows.append((move.name, move.type, move.old or "-", new, _size_text(move), _licence_text(move)))
    return tuple(rows)


def _grouped(lock: Lock | None) -> dict[tuple[str, str], list[LockEntry]]:
    found: dict[tuple[str, str], list[LockEntry]] = {}
    for entry in lock.entries if lock else ():
        found.setdefault((entry.name, entry.type), []).append(entry)
    return found


def _identity(entries: Sequence[LockEntry]) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for entry in entries:
        match entry:
            case GitEntry() | UrlEntry() | OciEntry() | HuggingFaceEntry() | WatchEntry():
                found.add((entry.name, encode(entry_json(entry)).decode()))
            case SourceEntry(files=files):
                found |= {(item.file, item.sha256.hex) for item in files}
            case DebEntry() | WheelEntry():
                found.add((entry.file, entry.sha256.hex))
    return found


def _versions(entries: Sequence[LockEntry]) -> str | None:
    return ", ".join(dict.fromkeys(entry.version for entry in entries)) or None


def _size(entries: Sequence[LockEntry]) -> int | None:
    return sum(entry.size for entry in entries) if entries else None


def _licences(entries: Sequence[LockEntry]) -> str | None:
    return "; ".join(sorted({entry.licence for entry in entries})) or None


def _size_text(move: Move) -> str:
    if move.size_old is None or move.size_new is None:
        return size_text(move.size_old or move.size_new or 0)
    if move.size_old == move.size_new:
        return size_text(move.size_new)
    return f"{size_text(move.size_old)} -> {size_text(move.size_new)}"


def _licence_text(move: Move) -> str:
    old, new = move.licence_old, move.licence_new
    return new or old or "" if old is None or new is None or old == new else f"{old} -> {new}"
