# SPDX-License-Identifier: Apache-2.0
"""What a report says, as values: releases, what changed between them, figures, sizes, scores, decisions, the chain.

Core: no IO. All text is one line and printable already; numbers keep the digits that the record has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from derive.canonical import Json

State: TypeAlias = Literal["historical", "candidate", "promoted", "retired"]
STATES: tuple[State, ...] = ("historical", "candidate", "promoted", "retired")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release on the line. ``day`` counts from 1970-01-01, None where no date is known; ``date`` says it in words.

    ``lane`` is what it is a release of: a deployment that this one follows, or a recipe. ``digest`` is the release
    digest, None for a historical one. ``previous`` is a release's name.
    """

    name: str
    state: State
    lane: str
    day: int | None
    date: str
    digest: str | None
    previous: str | None
    record: str
    by: str | None
    why: str | None
    promoted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that moved between two releases; a side that has it not, or does not say it, is None."""

    part: str
    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What moved from one release to the next; ``told`` is what its record says of itself in words."""

    first: str | None
    second: str
    rows: tuple[Change, ...]
    told: tuple[str, ...]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that a record states. ``low`` and ``high`` bound it: an interval where this project ``measured`` it.

    ``source`` is where the number comes from; ``against`` what it is compared with, as text.
    """

    name: str
    unit: str
    of: str
    shape: str
    case: str
    value: Decimal | None
    low: Decimal | None
    high: Decimal | None
    n: int | None
    measured: bool
    about: bool
    source: str
    against: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Figures of one name and unit, which are drawn to one scale; ``more`` are in the record and not here."""

    title: str
    unit: str
    figures: tuple[Figure, ...]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """An image of a release: bytes of its layers as they are fetched (compressed), and how many layers."""

    release: str
    day: int | None
    image: str
    platform: str
    size_bytes: int
    layers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How much of a release could be derived again when it was looked at: basis points of 10,000, and by place.

    ``lost`` names what was nowhere, of which ``more`` are not named; ``inputs`` is how many there were, if it was said.
    """

    release: str
    day: int | None
    date: str
    score_bp: int
    inputs: int | None
    counts: tuple[tuple[str, int], ...]
    lost: tuple[str, ...]
    more: int
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """Evidence that was let pass; ``expired`` is judged at the newest record's time."""

    reason: str
    expires: str
    expired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A shape of a release that may be deployed; ``standing`` until it is retired, or promoted anew (``again``)."""

    release: str
    shape: str
    date: str
    by: str
    why: str | None
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]
    waivers: tuple[Waiver, ...]
    certificates: int
    standing: bool
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A record of another kind: where it lies, what it is about, and what it says first."""

    file: str
    kind: str
    subject: str
    date: str
    says: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """The chain as it stood when the report was made: its head, and everything wrong with it, in words."""

    records: int
    head: str | None
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Everything that the report says. ``newest`` is the time of the newest record, in words: the report has no own.

    ``not_derivable`` are the reasons for which historical releases cannot be derived, with the releases of each.
    """

    newest: str
    chain: ChainState
    releases: tuple[Release, ...]
    not_derivable: tuple[tuple[str, tuple[str, ...]], ...]
    changes: tuple[Changes, ...]
    groups: tuple[Group, ...]
    sizes: tuple[Size, ...]
    scores: tuple[Score, ...]
    promotions: tuple[Promotion, ...]
    certificates: tuple[Row, ...]
    audits: tuple[Row, ...]
    others: tuple[Row, ...]
    unread: tuple[str, ...]


def document(account: Account) -> dict[str, Json]:
    """Return what the report says as a record's body: decimals as their digits."""
    from dataclasses import fields

    return {field.name: _plain(getattr(account, field.name)) for field in fields(account)}


def _plain(value: object) -> Json:
    from dataclasses import fields, is_dataclass

    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    raise AssertionError(value)
