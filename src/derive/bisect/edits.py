# SPDX-License-Identifier: Apache-2.0
"""The change between two states of a project as edits that can be made one by one, and a state with some made.

Core: no IO.

A state is the project's files by path, with ``pyproject.toml`` holding the settings that decide bytes alone. A lock is
edited by what is locked, a series by its patches, TOML by its keys, any other file whole. That a lock names the digest
of its wish is no edit: it follows from the wish.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from derive.bisect.locks import composed_lock, lock_edits, read_lock, with_wish
from derive.bisect.series import composed_series, folders, series_edits
from derive.bisect.values import ORDER, Key, ValueEdit, composed_value, key_words, value_edits
from derive.canonical import Json
from derive.errors import InputErrors
from derive.toml import parse_toml
from derive.toml_text import toml_text
from derive.why.words import value_text

Files = Mapping[str, bytes]

_LOCK = ".lock.json"
_SHORT = 40


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """One edit: in which file, or folder of patches, at which key of it; ``words`` say what it does."""

    file: str
    key: Key
    words: str

    @property
    def place(self) -> str:
        """Where it is made."""
        if self.file.startswith("patches/"):
            return "/".join((self.file, *self.key))
        if self.file.endswith(_LOCK):
            return ": ".join((self.file, *self.key))
        return key_words(self.file, self.key)

    def __str__(self) -> str:
        return f"{self.place} {self.words}"


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is composed by itself: its files in both states, its edits' keys, and its files with some of them made."""

    name: str
    old: Files
    new: Files
    edits: tuple[ValueEdit, ...]
    make: Callable[[Collection[Key]], Mapping[str, bytes]]

    def files(self, chosen: Collection[Key]) -> Mapping[str, bytes]:
        """Return its files with some of the edits made: the very bytes of either state with none or all."""
        if not chosen:
            return self.old
        return self.new if len(set(chosen)) == len(self.edits) else self.make(chosen)


class Change:
    """The change between two states: read once, composed as often as is wanted."""

    def __init__(self, before: Files, after: Files) -> None:
        self._before = before
        self._units = [_unit(name, old, new) for name, old, new in _units(before, after)]
        edits = (Edit(unit.name, one.key, _words(unit.name, one)) for unit in self._units for one in unit.edits)
        self.edits: tuple[Edit, ...] = tuple(sorted(edits))

    def composed(self, chosen: Collection[Edit]) -> dict[str, bytes]:
        """Return the first state with some of the edits made; with all of them it is the second state."""
        keys: dict[str, set[Key]] = {}
        for edit in chosen:
            keys.setdefault(edit.file, set()).add(edit.key)
        made: dict[str, bytes] = {}
        for unit in self._units:
            made |= unit.files(keys.get(unit.name, set()))
        return _with_wishes(made, self._before)


def edits_between(before: Files, after: Files) -> tuple[Edit, ...]:
    """Return the edits that make the first state the second, sorted by where they are made."""
    return Change(before, after).edits


def composed(before: Files, after: Files, chosen: Collection[Edit]) -> dict[str, bytes]:
    """Return the first state with some of the edits made; with all of them it is the second state."""
    return Change(before, after).composed(chosen)


def _units(before: Files, after: Files) -> Iterator[tuple[str, dict[str, bytes], dict[str, bytes]]]:
    """Yield what is composed by itself: a folder of patches, or a file; its files in both states."""
    patches = set(folders(before)) | set(folders(after))
    for folder in sorted(patches):
        yield folder, _inside(folder, before), _inside(folder, after)
    for path in sorted(before.keys() | after.keys()):
        if "/".join(path.split("/")[:2]) not in patches:
            yield path, _alone(path, before), _alone(path, after)


def _inside(folder: str, files: Files) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if path.startswith(f"{folder}/")}


def _alone(path: str, files: Files) -> dict[str, bytes]:
    return {path: files[path]} if path in files else {}


def _unit(name: str, old: Files, new: Files) -> _Unit:
    if old == new:
        return _Unit(name, old, new, (), lambda _: old)
    parts = None if not old or not new else _parts(name, old, new)
    if parts is None:
        whole = ValueEdit((), *("there" if one else None for one in (old, new)))
        return _Unit(name, old, new, (whole,), lambda _: new)
    return _Unit(name, old, new, *parts)


_Parts = tuple[tuple[ValueEdit, ...], Callable[[Collection[Key]], Mapping[str, bytes]]]


def _parts(name: str, old: Files, new: Files) -> _Parts | None:
    """Return the edits of a unit that both states have, part by part; None for one that is edited whole."""
    if name.startswith("patches/"):
        return _series(name, old, new)
    return _lock(name, old[name], new[name]) if name.endswith(_LOCK) else _toml(name, old[name], new[name])


def _series(name: str, old: Files, new: Files) -> _Parts | None:
    before, after = _below(name, old), _below(name, new)
    found = series_edits(before, after)

    def make(chosen: Collection[Key]) -> Mapping[str, bytes]:
        return {f"{name}/{path}": data for path, data in composed_series(before, after, chosen).items()}

    return None if found is None else (tuple(found), make)


def _lock(name: str, old: bytes, new: bytes) -> _Parts | None:
    before, after = read_lock(old), read_lock(new)
    if before is None or after is None or before.top.get("kind") != after.top.get("kind"):
        return None
    return tuple(lock_edits(before, after)), lambda chosen: {name: composed_lock(before, after, chosen)}


def _toml(name: str, old: bytes, new: bytes) -> _Parts | None:
    """Return the edits of a TOML file, where both states can be read and written again."""
    before, after = _table(name, old), _table(name, new)
    if before is None or after is None:
        return None

    def make(chosen: Collection[Key]) -> Mapping[str, bytes]:
        table = composed_value(before, after, chosen)
        assert isinstance(table, Mapping)
        return {name: toml_text(table).encode()}

    return tuple(value_edits(before, after)), make


def _table(name: str, data: bytes) -> dict[str, Json] | None:
    table = parse_toml(data, name)[0] if name.endswith(".toml") else None
    try:
        toml_text(table or {})
    except ValueError:
        return None
    return table


def _with_wishes(files: dict[str, bytes], before: Files) -> dict[str, bytes]:
    """Let each lock that an edit reached, or whose wish one did, name the digest of the wish beside it.

    A wish that cannot be read is found wrong elsewhere.
    """
    from derive.lock.wishes import require_wish, wish_digest

    for path, data in files.items():
        wish = f"{path.removesuffix(_LOCK)}.toml"
        if not path.endswith(_LOCK) or wish not in files:
            continue
        reached = data != before.get(path) or files[wish] != before.get(wish)
        lock = read_lock(data) if reached else None
        if lock is None:
            continue
        try:
            digest = str(wish_digest(require_wish(files[wish], wish)))
        except InputErrors:
            continue
        if lock.top.get("wish") != digest:
            files[path] = with_wish(data, digest)
    return files


def _below(name: str, files: Files) -> dict[str, bytes]:
    return {path.removeprefix(f"{name}/"): data for path, data in files.items()}


def _words(name: str, edit: ValueEdit) -> str:
    before, after = edit.before, edit.after
    is_text = name.startswith("patches/") or not edit.key
    if edit.key and edit.key[-1] == ORDER:
        return f"order: {value_text(before)} -> {value_text(after)}"
    if before is None or after is None:
        what = (
            "" if is_text or before == "there" or after == "there" else f" {_text(after if before is None else before)}"
        )
        return f"added{what}" if before is None else f"removed{what}"
    if is_text or before == after:
        return "changed"
    return f"{_text(before)} -> {_text(after)}"


def _text(value: Json) -> str:
    return value if isinstance(value, str) and value.isprintable() and len(value) <= _SHORT else value_text(value)
