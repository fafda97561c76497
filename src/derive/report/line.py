# SPDX-License-Identifier: Apache-2.0
"""The line of releases: what became of each, what came before it, and which shapes of it were promoted.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.canonical import Json
from derive.records.chain import Chain, Entry
from derive.report.history import KIND
from derive.report.model import Promotion, Release, State, Waiver
from derive.report.values import clean, day_named, day_of, day_text, items, maybe, moment, table, whole

UNKNOWN = "not known"


def releases(chain: Chain) -> tuple[Release, ...]:
    """Return every release in the chain's order; the recipe of one is what its line is called."""
    found: list[Release] = []
    before: dict[str, str] = {}
    for entry in chain.entries:
        if entry.record.kind == KIND:
            release = _historical(entry, before)
        elif entry.record.kind == "candidate":
            release = _candidate(chain, entry, found)
        else:
            continue
        before[release.lane] = release.name
        found.append(release)
    return tuple(found)


def not_derivable(chain: Chain) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return each reason for which historical releases cannot be derived, with their names in the chain's order."""
    found: dict[str, list[str]] = {}
    for entry in chain.entries:
        reason = maybe(entry.record.body.get("why_not"))
        if entry.record.kind == KIND and reason is not None:
            found.setdefault(reason, []).append(clean(entry.record.subject))
    return tuple((reason, tuple(names)) for reason, names in found.items())


def promotions(chain: Chain, newest_s: int) -> tuple[Promotion, ...]:
    """Return every promotion in the chain's order; a waiver has expired when its time is before the newest record's."""
    return tuple(
        Promotion(
            release=clean(entry.record.subject),
            shape=clean(entry.record.body.get("shape")),
            date=moment(entry.record.body.get("promoted_s")),
            by=clean(entry.record.body.get("by")),
            why=maybe(entry.record.body.get("why")),
            checked=_texts(entry.record.body.get("checked")),
            unchecked=_texts(entry.record.body.get("unchecked")),
            waivers=tuple(_waivers(entry.record.body.get("evidence"), newest_s)),
            certificates=len(items(entry.record.body.get("certificates"))),
            standing=_stands(chain, entry),
            again=_again(chain, entry),
        )
        for entry in chain.entries
        if entry.record.kind == "promoted"
    )


def _historical(entry: Entry, before: dict[str, str]) -> Release:
    body = entry.record.body
    date = table(body.get("date"))
    first, last = day_named(date.get("first")), day_named(date.get("last"))
    said = UNKNOWN if first is None else day_text(first)
    if first is not None and last is not None and last != first:
        said = f"{said} to {day_text(last)}"
    lane = clean(body.get("deployment")) or KIND
    known = ", ".join(_texts(body.get("known_from")))
    return Release(
        name=clean(entry.record.subject),
        state="historical",
        lane=lane,
        day=first,
        date=said,
        digest=None,
        previous=before.get(lane),
        record=clean(entry.where),
        by=None,
        why=f"known from {known}" if known else None,
        promoted=(),
    )


def _candidate(chain: Chain, entry: Entry, found: list[Release]) -> Release:
    body = entry.record.body
    promoted = chain.of(entry.record.subject, "promoted")
    standing = tuple(sorted(clean(one.record.body.get("shape")) for one in promoted if _stands(chain, one)))
    previous = maybe(body.get("previous_release"))
    return Release(
        name=clean(entry.record.subject),
        state=_state(chain, entry, standing),
        lane=_lane(clean(entry.record.subject), previous, found),
        day=day_of(body.get("made_s")),
        date=moment(body.get("made_s")),
        digest=maybe(body.get("release")),
        previous=previous,
        record=clean(entry.where),
        by=maybe(body.get("made_by")),
        why=maybe(body.get("why")),
        promoted=standing,
    )


def _state(chain: Chain, entry: Entry, standing: tuple[str, ...]) -> State:
    if standing:
        return "promoted"
    gone = any(one.record.kind == "retired" for one in _after(chain, entry))
    return "retired" if gone else "candidate"


def _lane(name: str, previous: str | None, found: list[Release]) -> str:
    """Return the lane of the release before; of the first, its name without what numbers it."""
    for one in found:
        if one.name == previous:
            return one.lane
    stem = name.rstrip("0123456789.").rstrip("-")
    return stem or name


def _stands(chain: Chain, promotion: Entry) -> bool:
    """Say whether a record is the one by which a shape may be deployed: of two promotions of it the later one."""
    return not (_again(chain, promotion) or _retired(chain, promotion))


def _again(chain: Chain, promotion: Entry) -> bool:
    """Say whether a later record promotes the same shape of the same release."""
    shape = promotion.record.body.get("shape")
    return any(
        one.record.kind == "promoted" and one.record.body.get("shape") == shape for one in _after(chain, promotion)
    )


def _retired(chain: Chain, promotion: Entry) -> bool:
    """Say whether a later record retires the shape that a record promotes, or the whole release."""
    shape = promotion.record.body.get("shape")
    return any(
        one.record.kind == "retired" and one.record.body.get("shape") in (None, shape)
        for one in _after(chain, promotion)
    )


def _after(chain: Chain, entry: Entry) -> Iterator[Entry]:
    """Yield later records about the release that a record is about."""
    for one in chain.entries:
        named = one.record.body.get("release") if one.record.kind == "retired" else one.record.subject
        if one.number > entry.number and named == entry.record.subject:
            yield one


def _waivers(evidence: Json, newest_s: int) -> Iterator[Waiver]:
    for item in items(evidence):
        one = table(item)
        if one.get("kind") == "waiver":
            expires = whole(one.get("expires_s"))
            yield Waiver(
                reason=clean(one.get("reason")),
                expires="never" if expires is None else moment(expires),
                expired=expires is not None and expires <= newest_s,
            )


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(text for item in items(value) if (text := clean(item)))
