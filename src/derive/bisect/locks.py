# SPDX-License-Identifier: Apache-2.0
"""The edits between two lock files, one for each thing that is locked, and a lock with some of them made.

Core: no IO.

A thing is edited whole: its entries for every architecture, and the closures or targets that it stands in. A closure
that only one of the two locks has is an edit of its own, with whatever entries it needs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from derive.bisect.values import Key, ValueEdit
from derive.canonical import CanonicalError, Json, decode

_GROUPS = ("closures", "targets")
_SORTED_BY = ("name", "type", "architecture", "version", "file")

Group: TypeAlias = tuple[str, ...]
"""Where a list of files stands: ``("closures", NAME, ARCHITECTURE)`` or ``("targets", NAME)``."""


@dataclass(frozen=True, slots=True)
class _Lock:
    """A lock as it was read: entries by name, the files of each group, and whose each file is."""

    top: Mapping[str, Json]
    entries: Mapping[str, Sequence[Mapping[str, Any]]]
    groups: Mapping[Group, Sequence[str]]
    owner: Mapping[str, str]

    def thing(self, name: str, groups: Collection[Group]) -> tuple[object, ...]:
        """Return all that the lock says of a name, in groups that both locks have."""
        entries = self.entries.get(name, ())
        files = {str(entry.get("file")) for entry in entries}
        places = [(group, file) for group in sorted(groups) for file in self.groups[group] if file in files]
        return (entries, places)

    def words(self, name: str) -> str | None:
        """Write the versions of a name; None where there is no entry of it."""
        found = self.entries.get(name)
        if not found:
            return None
        words = [str(one.get("version") or one.get("commit") or one.get("revision") or "")[:40] for one in found]
        return " ".join(dict.fromkeys(words))


def read_lock(data: bytes) -> _Lock | None:
    """Read a lock file as far as edits need it; None for what is none."""
    try:
        document = decode(data)
    except CanonicalError:
        return None
    entries = document.get("entries") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(entries, Sequence) or isinstance(entries, str):
        return None
    found: dict[str, list[Mapping[str, Any]]] = {}
    owner: dict[str, str] = {}
    for entry in entries:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            return None
        name = str(entry["name"])
        found.setdefault(name, []).append(entry)
        owner[str(entry.get("file"))] = name
    groups = dict(_groups(document))
    return _Lock(document, found, groups, owner)


def lock_edits(before: _Lock, after: _Lock) -> Iterator[ValueEdit]:
    """Yield the edits that make the first lock the second, without the digest of its wish, which follows."""
    common = before.groups.keys() & after.groups.keys()
    alone = before.groups.keys() ^ after.groups.keys()
    for name in sorted(before.entries.keys() | after.entries.keys()):
        if before.thing(name, common) != after.thing(name, common) and not _only_in(name, alone, before, after):
            yield ValueEdit((name,), before.words(name), after.words(name))
    for group in sorted(alone):
        yield ValueEdit((".".join(group),), *("there" if group in one.groups else None for one in (before, after)))


def composed_lock(before: _Lock, after: _Lock, chosen: Collection[Key]) -> bytes:
    """Return the first lock with some of the edits made; its wish's digest is whatever stands in the first."""
    taken = {name for name in before.entries.keys() | after.entries.keys() if (name,) in chosen}
    groups: dict[Group, list[str]] = {}
    for group in before.groups.keys() | after.groups.keys():
        old, new = before.groups.get(group), after.groups.get(group)
        if old is None or new is None:
            whole = new if (".".join(group),) in chosen else old
            if whole is not None:
                groups[group] = list(whole)
            continue
        kept = {file for file in old if before.owner.get(file) not in taken}
        groups[group] = sorted(kept | {file for file in new if after.owner.get(file) in taken})
    entries: list[Mapping[str, Any]] = []
    for name in before.entries.keys() | after.entries.keys():
        entries += (after if name in taken else before).entries.get(name, ())
    entries += _missing(groups, entries, before, after)
    document = {**before.top, "entries": sorted(entries, key=_sort_key), **_nested(groups, before)}
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def with_wish(data: bytes, wish: str) -> bytes:
    """Return a lock file that names this digest of a wish."""
    document = {**json.loads(data), "wish": wish}
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _only_in(name: str, alone: Collection[Group], before: _Lock, after: _Lock) -> bool:
    """Say whether a name is in one of the locks alone, and there only in groups that the other lacks."""
    if name in before.entries and name in after.entries:
        return False
    lock = before if name in before.entries else after
    files = {str(entry.get("file")) for entry in lock.entries[name]}
    places = {group for group, listed in lock.groups.items() if files & set(listed)}
    return bool(places) and places <= set(alone)


def _missing(
    groups: Mapping[Group, Sequence[str]], entries: Sequence[Mapping[str, Any]], before: _Lock, after: _Lock
) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of files that a group names and that are not there yet."""
    there = {str(entry.get("file")) for entry in entries}
    for file in sorted({file for files in groups.values() for file in files} - there):
        for lock in (after, before):
            found = [one for one in lock.entries.get(lock.owner.get(file, ""), ()) if one.get("file") == file]
            if found:
                yield found[0]
                break


def _groups(document: Mapping[str, Json]) -> Iterator[tuple[Group, Sequence[str]]]:
    for kind in _GROUPS:
        named = document.get(kind)
        for name, inner in named.items() if isinstance(named, Mapping) else ():
            if isinstance(inner, Mapping):
                yield from (((kind, name, part), _texts(files)) for part, files in inner.items())
            else:
                yield (kind, name), _texts(inner)


def _nested(groups: Mapping[Group, Sequence[str]], before: _Lock) -> dict[str, Any]:
    found: dict[str, Any] = {kind: {} for kind in _GROUPS if kind in before.top}
    for group, files in groups.items():
        at = found.setdefault(group[0], {})
        for part in group[1:-1]:
            at = at.setdefault(part, {})
        at[group[-1]] = list(files)
    return found


def _texts(value: Json) -> Sequence[str]:
    return [str(one) for one in value] if isinstance(value, Sequence) and not isinstance(value, str) else []


def _sort_key(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key) or "") for key in _SORTED_BY)
