# SPDX-License-Identifier: Apache-2.0
"""The account of an import: what became of every key that was read. None is passed over in silence.

Core: no IO.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from derive.canonical import Json
from derive.importing.read import leaves

State: TypeAlias = Literal["placed", "site", "derived", "dropped", "added", "to be added", "differs", "unplaced"]

STATES: tuple[State, ...] = ("unplaced", "differs", "to be added", "added", "dropped", "site", "derived", "placed")
"""What can become of a key, what a person must look at first.

``added`` is what the recipe says besides, ``to be added`` what a person must write into it: no file said it.
"""

_NUMBER = re.compile(r"\[[0-9]+\]")

FINDINGS: frozenset[State] = frozenset({"unplaced", "differs"})
"""What leaves a recipe that does not say all that the old file said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One key of one file: ``place`` is where it went (or the rule that gives it), ``note`` why."""

    file: str
    key: str
    state: State
    place: str = ""
    note: str = ""


@dataclass(slots=True)
class Account:
    """Gathers the rows of one file, or of one shape of it; ``own`` has the keys that stand below ``shapes.SHAPE``."""

    file: str
    shape: str | None = None
    own: Collection[str] = ()
    rows: list[Row] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def add(self, key: str, state: State, place: str = "", note: str = "", *, of: str | None = None) -> None:
        """Say what became of a key; ``of`` is the list that it is an element of."""
        self._seen.add(of or key)
        stands = f"shapes.{self.shape}.{key}" if key in self.own else key
        self.rows.append(Row(file=self.file, key=stands, state=state, place=place, note=note))

    def placed(self, key: str, place: str, note: str = "") -> None:
        """Say that a key stands in the recipe now."""
        self.add(key, "placed", place, note)

    def dropped(self, key: str, why: str) -> None:
        """Say that a key is left out, and why nobody will miss it."""
        self.add(key, "dropped", note=why)

    def close(self, document: Mapping[str, Json]) -> None:
        """Count every key that nothing was said of as one without a place."""
        for key, _ in leaves(document):
            above = {key[:at] for at, letter in enumerate(key) if letter == "."}
            if not (above | {key}) & self._seen:
                self.add(key, "unplaced", note="no key of a recipe or site says this")


def told_once(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return rows once each, in their order; of a key that has no place, or came to differ, nothing else is said."""
    unique = tuple(dict.fromkeys(rows))
    worst: dict[tuple[str, str], State] = {}
    for state in ("differs", "unplaced"):
        worst |= {(row.file, row.key): row.state for row in unique if row.state == state}
    return tuple(row for row in unique if row.state == worst.get((row.file, row.key), row.state))


def summary(rows: Iterable[Row]) -> list[Row]:
    """Return rows for people: what must be looked at first, and what several files or nodes have alike once."""
    found: dict[Row, list[str]] = {}
    for row in rows:
        alike = replace(row, file="", key=_NUMBER.sub("[]", row.key), place=_NUMBER.sub("[]", row.place))
        found.setdefault(alike, []).append(row.file)
    whole = [replace(row, file=" ".join(dict.fromkeys(files))) for row, files in found.items()]
    return sorted(whole, key=lambda row: STATES.index(row.state))


def counts(rows: Iterable[Row]) -> dict[State, int]:
    """Return how many keys each thing became of, what must be looked at first."""
    found = Counter(row.state for row in rows)
    return {state: found[state] for state in STATES if found[state]}
