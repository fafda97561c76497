# SPDX-License-Identifier: Apache-2.0
"""What became of releases: which shapes are promoted, retired or still candidates, and which waivers are open.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from derive.canonical import Digest, Json
from derive.errors import Problem
from derive.records.chain import Chain, Entry

State: TypeAlias = Literal["candidate", "promoted", "retired", "historical"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """What was let pass for a shape, why, and until when (seconds since 1970)."""

    shape: str
    reason: str
    expires_s: int

    def is_expired(self, now_s: int) -> bool:
        """Say whether it holds no longer."""
        return now_s >= self.expires_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeState:
    """A shape of a release. ``entry`` is the record that made it so, ``since_s`` when; None where nobody noted it."""

    release: str
    shape: str
    state: State
    since_s: int | None
    waivers: tuple[Waiver, ...]
    entry: Entry


def promotions(chain: Chain, release: str, shape: str) -> tuple[Entry, ...]:
    """Return the records that promoted a shape of a release, in the chain's order."""
    return tuple(one for one in chain.of(release, "promoted") if one.record.body.get("shape") == shape)


def retirement(chain: Chain, release: str, shape: str) -> Entry | None:
    """Return the record that retired a shape, alone or with the whole release, unless it was promoted again since."""
    last = max((one.number for one in promotions(chain, release, shape)), default=0)
    found = [
        one
        for one in chain.entries
        if one.record.kind == "retired"
        and one.record.body.get("release") == release
        and one.record.body.get("shape") in (None, shape)
        and one.number > last
    ]
    return found[-1] if found else None


def shape_state(chain: Chain, candidate: Entry, shape: str) -> ShapeState:
    """Return what became of a shape of a release that was recorded as a candidate."""
    release = candidate.record.subject
    retired, promoted = retirement(chain, release, shape), promotions(chain, release, shape)
    waivers = open_waivers(chain, release, shape)
    if retired is not None:
        return _state(release, shape, "retired", retired, "retired_s", ())
    if promoted:
        return _state(release, shape, "promoted", promoted[-1], "promoted_s", waivers)
    return _state(release, shape, "candidate", candidate, "made_s", waivers)


def open_waivers(chain: Chain, release: str, shape: str) -> tuple[Waiver, ...]:
    """Return what was let pass for a shape and is not cleared: of its last promotion, or of a candidate still to be.

    A promotion with evidence in a waiver's place clears it; one that has expired stays open, and holds deploys up.
    """
    candidate, promoted = chain.candidate(release), promotions(chain, release, shape)
    entry = promoted[-1] if promoted else candidate
    return () if entry is None else tuple(waivers_of(entry.record.body, shape))


def waivers_of(body: Mapping[str, Json], shape: str) -> Iterator[Waiver]:
    """Yield the waivers that a record's evidence has for a shape."""
    evidence = body.get("evidence")
    for one in evidence if isinstance(evidence, list | tuple) else ():
        if isinstance(one, Mapping) and one.get("kind") == "waiver" and one.get("shape") == shape:
            yield Waiver(shape=shape, reason=str(one["reason"]), expires_s=int(str(one["expires_s"])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of what may be deployed: a shape of a release, or a release of which no shape is known.

    ``problems`` are what stands against a deploy. ``complete`` says that nothing that the shape needs was missing
    when it was released. ``digest`` is the release's, ``images`` those of its platforms; a historical one has neither.
    """

    release: str
    recipe: str
    shape: str
    state: State
    problems: tuple[Problem, ...]
    complete: bool
    digest: Digest | None
    images: Mapping[str, Digest]
    waivers: tuple[Waiver, ...]
    since_s: int | None


def _state(release: str, shape: str, state: State, entry: Entry, key: str, waivers: tuple[Waiver, ...]) -> ShapeState:
    since = entry.record.body.get(key)
    return ShapeState(
        release=release,
        shape=shape,
        state=state,
        since_s=since if isinstance(since, int) else None,
        waivers=waivers,
        entry=entry,
    )
