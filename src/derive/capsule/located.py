# SPDX-License-Identifier: Apache-2.0
"""Where each input of a release is today, counted and judged: the score of re-derivability.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from derive.canonical import Digest, Json
from derive.capsule.model import CONTENT, FACTS, RECORD, RELEASE, Use

PlaceKind: TypeAlias = Literal["store", "project", "archive", "capsule", "mirror"]
PLACES: tuple[PlaceKind, ...] = get_args(PlaceKind)
"""Where an input may be, the nearest first. ``project``: working tree, git history, the engine at hand."""

WHOLE_BP = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """An input and every place that has it; ``size`` in bytes, 0 where nobody has stated it."""

    use: Use
    digest: Digest
    size: int
    places: frozenset[PlaceKind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Inputs of one kind: how many, their bytes, how many each place has, how many are nowhere, and those bytes."""

    kind: str
    inputs: int
    size: int
    held: Mapping[PlaceKind, int]
    nowhere: int
    nowhere_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivability:
    """How much of a release could be derived. ``asked`` are the places that were looked at."""

    located: tuple[Located, ...]
    asked: tuple[PlaceKind, ...]

    @property
    def nowhere(self) -> tuple[Located, ...]:
        """Inputs that no place has."""
        return tuple(one for one in self.located if not one.places)

    @property
    def rows(self) -> tuple[Row, ...]:
        """One row for each kind of input."""
        kinds = sorted({kind_of(one.use) for one in self.located})
        return tuple(_row(kind, [one for one in self.located if kind_of(one.use) == kind]) for kind in kinds)

    @property
    def total(self) -> Row:
        """All inputs together."""
        return _row("all", self.located)

    @property
    def score_bp(self) -> int:
        """The share of inputs that are somewhere, in basis points, rounded down: 10000 says all of them."""
        return share_bp(self.total.inputs - self.total.nowhere, self.total.inputs)

    @property
    def size_score_bp(self) -> int:
        """The share of bytes that are somewhere, in basis points, rounded down."""
        return share_bp(self.total.size - self.total.nowhere_size, self.total.size)

    def body(self) -> dict[str, Json]:
        """Return what a record says of it."""
        return {
            "score_bp": self.score_bp,
            "size_score_bp": self.size_score_bp,
            "asked": list(self.asked),
            "total": _document(self.total),
            "kinds": [_document(row) for row in self.rows],
            "nowhere": [
                {"kind": one.use.kind, "name": one.use.name, "digest": str(one.digest)} for one in self.nowhere
            ],
        }


def share_bp(part: int, whole: int) -> int:
    """Return a share in basis points, rounded down; of nothing, all is there."""
    return part * WHOLE_BP // whole if whole else WHOLE_BP


def kind_of(use: Use) -> str:
    """Return the kind under which an input is counted: documents are one."""
    return "documents" if use.kind in (RELEASE, FACTS, RECORD, CONTENT) else use.kind


def _row(kind: str, located: Iterable[Located]) -> Row:
    every = tuple(located)
    lost = [one for one in every if not one.places]
    return Row(
        kind=kind,
        inputs=len(every),
        size=sum(one.size for one in every),
        held={place: sum(place in one.places for one in every) for place in PLACES},
        nowhere=len(lost),
        nowhere_size=sum(one.size for one in lost),
    )


def _document(row: Row) -> dict[str, Json]:
    return {
        "kind": row.kind,
        "inputs": row.inputs,
        "size_bytes": row.size,
        "held": {place: row.held[place] for place in PLACES},
        "nowhere": row.nowhere,
        "nowhere_bytes": row.nowhere_size,
    }
