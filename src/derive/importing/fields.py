# SPDX-License-Identifier: Apache-2.0
"""Values of a JSON document by dotted key path, each of the type that is asked for, or a problem and None.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from derive.canonical import Json
from derive.errors import Problem, expected_got
from derive.words import one_line


@dataclass(slots=True)
class Fields:
    """A document of one file, and what was found wrong in it."""

    document: Mapping[str, Json]
    file: str
    problems: list[Problem] = field(default_factory=list)

    def get(self, key: str) -> Json:
        """Return the value at a path; None where there is none, or where it is null."""
        value: Json = self.document
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def text(self, key: str) -> str | None:
        """Return a text."""
        value = self.get(key)
        if value is not None and not isinstance(value, str):
            self.wrong(key, "not text", "text", repr(value))
        return value if isinstance(value, str) else None

    def whole(self, key: str) -> int | None:
        """Return an integer."""
        value = self.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            self.wrong(key, "not a whole number", "a whole number", repr(value))
            return None
        return value

    def switch(self, key: str) -> bool | None:
        """Return true or false."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            self.wrong(key, "not true or false", "true or false", repr(value))
        return value if isinstance(value, bool) else None

    def number(self, key: str) -> str | None:
        """Return the digits of a number, as they stand."""
        match self.get(key):
            case None:
                return None
            case {"decimal": str(text)}:
                return text
            case int(number) if not isinstance(number, bool):
                return str(number)
            case other:
                self.wrong(key, "not a number", "a number", repr(other))
                return None

    def texts(self, key: str) -> list[str]:
        """Return a list of texts, empty where there is none."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.wrong(key, "not a list of texts", "a list of texts", repr(value)[:80])
            return []
        return [str(one) for one in value]

    def mapping(self, key: str) -> Mapping[str, Json]:
        """Return an object, empty where there is none."""
        value = self.get(key)
        if value is not None and not isinstance(value, Mapping):
            self.wrong(key, "not an object", "an object", repr(value))
        return value if isinstance(value, Mapping) else {}

    def wrong(self, key: str, message: str, expected: object, got: object) -> None:
        """Say what is wrong with a key."""
        where = f"{self.file}: {one_line(key)}" if key else self.file
        self.problems.append(Problem(where=where, message=message, detail=expected_got(expected, got)))
