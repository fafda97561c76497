# SPDX-License-Identifier: Apache-2.0
"""Values out of records that may say anything: text made printable, times and days, decimals, units out of keys.

Core: no IO. What is not of the expected type is absent, and never an error: a report shows what there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from derive.canonical import Json
from derive.words import one_line

_LONGEST = 600
_DIGITS = 30
_EPOCH = date(1970, 1, 1).toordinal()
_SINCE_S = 946_684_800
"""2000-01-01: a number of seconds below it is a duration, whatever its key is called."""
_AHEAD = ("expires", "until", "valid", "not_after")
_DIGEST: Final = "sha256:"


def clean(value: object) -> str:
    """Return text as it may be shown: one line, printable, not endless; empty for what is no text."""
    if not isinstance(value, str):
        return ""
    text = one_line(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text)} characters)"


def maybe(value: object) -> str | None:
    """Return text as it may be shown; None for what is no text, and for none."""
    return clean(value) or None


def table(value: object) -> Mapping[str, Json]:
    """Return a table; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Json]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def whole(value: object) -> int | None:
    """Return a whole number; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: object) -> Decimal | None:
    """Return a whole number or ``{"decimal": digits}`` with the digits that it has; None for anything else."""
    if (count := whole(value)) is not None:
        return Decimal(count)
    text = table(value).get("decimal")
    if not isinstance(text, str) or len(text) > _DIGITS:
        return None
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    return found if found.is_finite() and abs(found.adjusted()) < _DIGITS else None


def digits(value: Decimal) -> str:
    """Write a number with its own digits, thousands apart."""
    return f"{value:,f}"


def moment(value: object) -> str:
    """Write a time in seconds since 1970, in UTC to the minute; what is no time is said to be unknown."""
    found = _datetime(value)
    return "not known" if found is None else found.strftime("%Y-%m-%d %H:%M UTC")


def day_of(value: object) -> int | None:
    """Return the day of a time in seconds since 1970."""
    found = _datetime(value)
    return None if found is None else found.date().toordinal() - _EPOCH


def day_named(value: object) -> int | None:
    """Return the day that ``YYYY-MM-DD`` names."""
    try:
        return date.fromisoformat(value).toordinal() - _EPOCH if isinstance(value, str) else None
    except ValueError:
        return None


def day_text(day: int) -> str:
    """Write a day."""
    return date.fromordinal(day + _EPOCH).isoformat()


def _datetime(value: object) -> datetime | None:
    seconds = whole(value)
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None


def times_in(body: Mapping[str, Json]) -> Iterator[int]:
    """Yield the times that a body states of the past: keys that end in ``_s``, but for those that look ahead."""
    for key, value in body.items():
        seconds = whole(value)
        if seconds is not None and key.endswith("_s") and not key.startswith(_AHEAD) and seconds >= _SINCE_S:
            yield seconds


def short(value: object) -> str:
    """Write a digest or a commit with 12 digits, other text whole."""
    text = clean(value)
    rest = text.removeprefix(_DIGEST)
    return rest[:12] if len(rest) >= 40 and all(c in "0123456789abcdef" for c in rest) else text


def worded(value: Json) -> str:
    """Write any value in a few words: numbers and texts themselves, others by how many values they hold."""
    if (found := number(value)) is not None:
        return digits(found)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return clean(value)
    held = table(value)
    for key in ("sha256", "sha1", "begins"):
        if set(held) == {key}:
            return clean(held[key]) + ("..." if key == "begins" else "")
    if items(value) and all(isinstance(item, str | int) for item in items(value)):
        return clean(", ".join(worded(item) for item in items(value)))
    return "" if value is None else f"{len(held or items(value))} values"


_UNITS: Mapping[str, str] = {
    "ns": "ns",
    "us": "us",
    "ms": "ms",
    "s": "s",
    "min": "min",
    "bytes": "bytes",
    "gib": "GiB",
    "mib": "MiB",
    "tokens_per_s": "tokens/s",
    "bytes_per_s": "bytes/s",
    "percent": "%",
    "bp": "basis points",
    "million": "million",
    "tokens": "tokens",
}


def unit_text(unit: str) -> str:
    """Write the unit that a key ends in."""
    return _UNITS.get(unit, clean(unit.replace("_", " ")))
