# SPDX-License-Identifier: Apache-2.0
"""The mode table: the one place where an image's permission bits and owners come from.

Core: no IO.

A tree knows only type and owner-execute bit. What a layer's headers say beyond that is the default (0755 for folders
and executables, 0644 for other files, 0777 for links, owner 0:0) or a rule of this table. Set-id bits are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from derive.canonical import Json, escape, unescape
from derive.errors import InputErrors, Problem
from derive.images.documents import exact, fields, integer, items, text
from derive.trees.listing import Directory, Entry, File, ListingError, Symlink, check_path, nar_key

TAG = "mode-table/1"

MAX_ID = 0o7777777
"""The largest owner that an ustar header holds (2097151)."""

_SET_ID = 0o6000
_STICKY = 0o1000


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a header says of an entry beyond its name, type and size."""

    mode: int
    uid: int
    gid: int


_FOLDER = Attributes(0o755, 0, 0)
_PROGRAM = _FOLDER
_PLAIN = Attributes(0o644, 0, 0)
_LINK = Attributes(0o777, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The attributes of one path. ``mode`` is its permission bits, or None for the default of its type."""

    path: bytes
    mode: int | None = None
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class ModeTable:
    """Rules in NAR order of their paths, one a path; the order in which they were written down decides nothing."""

    rules: tuple[Rule, ...] = ()
    _by_path: Mapping[bytes, Rule] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_path", {rule.path: rule for rule in self.rules})

    @classmethod
    def of(cls, rules: Iterable[Rule], *, where: str = "") -> ModeTable:
        """Build a table from rules in any order.

        Raises:
            InputErrors: every rule that is illegal or given twice, each with ``where``.
        """
        given = tuple(rules)
        problems = [Problem(where=where, message=message) for rule in given for message in _faults(rule)]
        seen: set[bytes] = set()
        for rule in given:
            if rule.path in seen:
                problems.append(Problem(where=where, message=f"two mode rules for {escape(rule.path)}"))
            seen.add(rule.path)
        if problems:
            raise InputErrors(problems)
        return cls(tuple(sorted(given, key=lambda rule: nar_key(rule.path))))

    def attributes(self, path: bytes, entry: Entry) -> Attributes:
        """Return what the header of an entry says."""
        default = _default(entry)
        rule = self._by_path.get(path)
        if rule is None:
            return default
        # A link's bits mean nothing to Linux: it always shows 0777.
        mode = default.mode if rule.mode is None or isinstance(entry, Symlink) else rule.mode
        return Attributes(mode, rule.uid, rule.gid)

    def unmatched(self, paths: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return the paths of rules that name nothing among ``paths``, in NAR order."""
        present = set(paths)
        return tuple(rule.path for rule in self.rules if rule.path not in present)

    def misfits(self, entries: Mapping[bytes, Entry], *, where: str = "") -> tuple[Problem, ...]:
        """Return the rules that do not fit what they name: a sticky bit beside folders, a mode of a link."""
        return tuple(
            Problem(where=where, message=message)
            for rule in self.rules
            if rule.path in entries and (message := _misfit(rule, entries[rule.path]))
        )

    def to_document(self) -> dict[str, Json]:
        """Return the table as the part of a derivation that it is."""
        return {
            "derive": TAG,
            "rules": [
                {
                    "path": escape(rule.path),
                    "mode": None if rule.mode is None else f"{rule.mode:04o}",
                    "uid": rule.uid,
                    "gid": rule.gid,
                }
                for rule in self.rules
            ],
        }

    @classmethod
    def from_document(cls, document: Json) -> ModeTable:
        """Read what :meth:`to_document` wrote; raises ValueError on anything else."""
        rules = []
        for item in items(fields(document, tag=TAG, keys=("rules",)), "rules"):
            rule = exact(item, keys=("path", "mode", "uid", "gid"), what="rule")
            mode = None if rule["mode"] is None else int(text(rule, "mode"), 8)
            rules.append(
                Rule(path=unescape(text(rule, "path")), mode=mode, uid=integer(rule, "uid"), gid=integer(rule, "gid"))
            )
        try:
            table = cls.of(rules)
        except InputErrors as error:
            raise ValueError(f"{TAG}: {error.problems()[0].message}") from error
        if table.to_document() != document:
            raise ValueError(f"{TAG}: not written as this program writes it")
        return table


def _default(entry: Entry) -> Attributes:
    match entry:
        case Directory():
            return _FOLDER
        case Symlink():
            return _LINK
        case File(executable):
            return _PROGRAM if executable else _PLAIN
        case _:
            assert_never(entry)


def _faults(rule: Rule) -> Iterable[str]:
    name = escape(rule.path) or "the root"
    try:
        check_path(rule.path)
    except ListingError as error:
        yield str(error)
    if rule.path == b"":
        yield "a mode rule for the root folder: layers hold no header for it"
    if rule.mode is not None:
        if rule.mode & _SET_ID:
            yield f"{name}: set-user-id and set-group-id bits are never written: mode {rule.mode:04o}"
        elif not 0 <= rule.mode <= 0o1777:
            yield f"{name}: no permission bits: {rule.mode:#o}"
    for kind, number in (("uid", rule.uid), ("gid", rule.gid)):
        if not 0 <= number <= MAX_ID:
            yield f"{name}: {kind} {number} is not within 0 to {MAX_ID}"


def _misfit(rule: Rule, entry: Entry) -> str | None:
    if rule.mode is None:
        return None
    if isinstance(entry, Symlink) and rule.mode != _LINK.mode:
        return f"{escape(rule.path)} is a symlink, whose mode cannot be set: {rule.mode:04o}"
    if isinstance(entry, File) and rule.mode & _STICKY:
        return f"{escape(rule.path)} is a file, and the sticky bit is for folders: {rule.mode:04o}"
    return None
