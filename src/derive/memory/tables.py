# SPDX-License-Identifier: Apache-2.0
"""Reading a table of TOML key by key: each value typed, and everything that is wrong kept to be said at once.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from derive.canonical import Json
from derive.errors import Problem
from derive.recipes.check import shown
from derive.recipes.forms import size_bytes
from derive.toml import key_path
from derive.words import near


@dataclass(slots=True)
class Table:
    """A table of one file and the path it stands at. Reading a key marks it; :meth:`end` refuses the others."""

    file: str
    path: str
    values: Mapping[str, Json]
    problems: list[Problem]
    read: set[str] = field(default_factory=set)

    def problem(self, key: str, message: str, *detail: str, hint: str | None = None) -> None:
        """Keep a problem with one key."""
        where = key_path((key,), self.path) if key else self.path
        self.problems.append(Problem(where=f"{self.file}: {where}", message=message, detail=detail, hint=hint))

    def integer(self, key: str, default: int | None = None, least: int = 1) -> int:
        """Return an integer of at least ``least``."""
        value = self._get(key, default)
        if value is None:
            return least
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.problem(key, f"is to be an integer of at least {least}", f"got       {shown(value)}")
            return least
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return text that is not empty."""
        value = self._get(key, default)
        if value is None:
            return ""
        if not isinstance(value, str) or not value:
            self.problem(key, "is to be text", f"got       {shown(value)}")
            return ""
        return value

    def choice(self, key: str, words: Sequence[str], default: str | None = None) -> str:
        """Return one of a few words."""
        value = self._get(key, default)
        if value is None:
            return words[0]
        if not isinstance(value, str) or value not in words:
            self.problem(key, f"is to be {' or '.join(words)}", f"got       {shown(value)}")
            return words[0]
        return value

    def size(self, key: str, default: str | None = None) -> int:
        """Return the bytes of a size as text."""
        value = self._get(key, default)
        if value is None:
            return 0
        return self._size(key, value)

    def _size(self, key: str, value: Json) -> int:
        try:
            if isinstance(value, str):
                return size_bytes(value)
        except ValueError:
            pass
        self.problem(key, "is to be a size as text, as in 3.5GiB", f"got       {shown(value)}")
        return 0

    def sizes(self, key: str) -> tuple[int, ...]:
        """Return the bytes of a list of sizes."""
        value = self._get(key, None)
        if not isinstance(value, list):
            if value is not None:
                self.problem(key, "is to be a list of sizes", f"got       {shown(value)}")
            return ()
        return tuple(self._size(key, item) for item in value)

    def integers(self, key: str) -> tuple[int, ...]:
        """Return a list of integers above 0."""
        value = self._get(key, None)
        if value is None:
            return ()
        items = value if isinstance(value, list) else []
        numbers = [item for item in items if isinstance(item, int) and not isinstance(item, bool) and item > 0]
        if not items or len(numbers) != len(items):
            self.problem(key, "is to be a list of integers above 0", f"got       {shown(value)}")
        return tuple(numbers)

    def switch(self, key: str) -> bool:
        """Return a switch, which is off where it is not named."""
        value = self._get(key, default=False)
        if not isinstance(value, bool):
            self.problem(key, "is to be true or false", f"got       {shown(value)}")
        return value is True

    def texts(self, key: str, words: Sequence[str] | None = None) -> dict[str, str]:
        """Return a table of text, each one of a few words where they are given; empty where it is not named."""
        table = self.table(key, {})
        found = {}
        for name in table.values:
            found[name] = table.choice(name, words) if words is not None else table.text(name)
        return found

    def table(self, key: str, default: Mapping[str, Json] | None = None) -> Table:
        """Return a table below this one."""
        value = self._get(key, default)
        if not isinstance(value, Mapping):
            if value is not None:
                self.problem(key, "is to be a table", f"got       {shown(value)}")
            value = {}
            return Table(self.file, key_path((key,), self.path), value, [])
        return Table(self.file, key_path((key,), self.path), value, self.problems)

    def tables(self, key: str) -> tuple[Table, ...]:
        """Return a list of tables below this one."""
        value = self._get(key, None)
        items = value if isinstance(value, list) else []
        if value is not None and (not items or not all(isinstance(item, Mapping) for item in items)):
            self.problem(key, "is to be a list of tables", f"got       {shown(value)}")
        path = key_path((key,), self.path)
        return tuple(
            Table(self.file, f"{path}[{number}]", item, self.problems)
            for number, item in enumerate(items)
            if isinstance(item, Mapping)
        )

    def has(self, key: str) -> bool:
        """Say whether a key is named."""
        return key in self.values

    def end(self) -> None:
        """Refuse the keys that nobody read."""
        for key in self.values:
            if key not in self.read:
                self.problem(key, "unknown key", hint=near(key, sorted(self.read)))

    def _get(self, key: str, default: Json) -> Json:
        self.read.add(key)
        if key in self.values:
            return self.values[key]
        if default is None:
            self.problem(key, "this key is missing")
        return default
