# SPDX-License-Identifier: Apache-2.0
"""A table of a JSON document being read strictly: each key is taken once, and what is left over is unknown.

Core: no IO. Imports no pydantic: every plan reads locks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from derive.canonical import Digest, Json
from derive.errors import Problem

NOTHING = Digest("0" * 64)
"""Stands for a digest that could not be read: a problem was noted, and nobody looks at it."""


class Table:
    """A JSON table being read: each key is taken once, and what is left over is unknown."""

    def __init__(self, table: Mapping[str, Json], file: str, path: str, problems: list[Problem]) -> None:
        self._left = dict(table)
        self.file = file
        self.path = path
        self.problems = problems

    def problem(self, key: str, message: str, detail: Sequence[str] = ()) -> None:
        """Note a problem, at a key of this table."""
        place = f"{self.path}.{key}" if self.path and key else self.path or key
        where = f"{self.file}: {place}" if place else self.file
        self.problems.append(Problem(where=where, message=message, detail=tuple(detail)))

    def peek(self, key: str) -> Json:
        """Return what a key holds, which may be nothing, and leave it to be taken."""
        return self._left.get(key)

    def take(self, key: str) -> Json:
        """Take a key, whatever it holds; one that is missing is a problem."""
        if key not in self._left:
            self.problem(key, "this key is missing")
        return self._left.pop(key, None)

    def text(self, key: str, pattern: re.Pattern[str]) -> str:
        """Take a text of a form; anything else is a problem."""
        if key not in self._left:
            self.problem(key, "this key is missing")
            return ""
        value = self._left.pop(key)
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        if isinstance(value, str) and "://" in value:
            self.problem(key, "a lock names no hosts", [f"got       {value!r}"])
        else:
            self.problem(key, "not a legal value", [f"got       {value!r}"])
        return ""

    def optional(self, key: str, pattern: re.Pattern[str]) -> str | None:
        """Take a text that may be absent."""
        return self.text(key, pattern) if key in self._left else None

    def integer(self, key: str) -> int:
        """Take a size in bytes."""
        value = self.take(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        if value is not None:
            self.problem(key, "not a size in bytes", [f"got       {value!r}"])
        return 0

    def digest(self, key: str, *, tagged: bool = False) -> Digest:
        """Take a digest, ``tagged`` when it is written with ``sha256:``."""
        value = self.take(key)
        try:
            return Digest.parse(str(value)) if tagged else Digest(str(value))
        except ValueError as error:
            if value is not None:
                self.problem(key, str(error))
            return NOTHING

    def tables(self, key: str) -> list[Table]:
        """Take an array of tables."""
        value = self.take(key)
        if not isinstance(value, list):
            if value is not None:
                self.problem(key, "not an array")
            return []
        found = []
        for index, item in enumerate(value):
            path = f"{self.path}.{key}[{index}]" if self.path else f"{key}[{index}]"
            if isinstance(item, Mapping):
                found.append(Table(item, self.file, path, self.problems))
            else:
                self.problem(f"{key}[{index}]", "not a table")
        return found

    def table(self, key: str) -> Table:
        """Take a table."""
        value = self.take(key)
        path = f"{self.path}.{key}" if self.path else key
        if not isinstance(value, Mapping):
            if value is not None:
                self.problem(key, "not a table")
            value = {}
        return Table(value, self.file, path, self.problems)

    def names(self) -> list[str]:
        """Return the keys that are left."""
        return list(self._left)

    def end(self) -> None:
        """Note every key that is left as unknown."""
        for key in self._left:
            self.problem(key, "unknown key")
