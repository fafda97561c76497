# SPDX-License-Identifier: Apache-2.0
"""Releases as rows: which shape of which may be deployed, since when, and until when what was waived may pass.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from derive.canonical import Digest, Json
from derive.errors import Problem
from derive.records.chain import Chain, Entry
from derive.releases.document import Release
from derive.releases.policy import date_text
from derive.releases.state import Row, ShapeState, Waiver, shape_state

Against: TypeAlias = Callable[[str, str], Sequence[Problem]]
"""Says what stands against deploying a shape of a release."""


def rows_of(chain: Chain, releases: Mapping[str, Release], against: Against) -> tuple[Row, ...]:
    """Return a row for each shape of each release, and one for each historical record, in the chain's order."""
    found: list[Row] = []
    for entry in chain.entries:
        name = entry.record.subject
        if entry.record.kind == "candidate":
            found += _released(chain, entry, releases[name], against)
        elif entry.record.kind == "historical":
            found.append(_historical(entry, against))
    return tuple(found)


def _released(chain: Chain, entry: Entry, release: Release, against: Against) -> Iterator[Row]:
    for name, shape in sorted(release.shapes.items()):
        known = shape_state(chain, entry, name)
        yield Row(
            release=entry.record.subject,
            recipe=release.recipe,
            shape=name,
            state=known.state,
            problems=tuple(against(entry.record.subject, name)),
            complete=shape.deployable,
            digest=release.digest,
            images=_images(known, release),
            waivers=known.waivers,
            since_s=known.since_s,
        )


def _images(known: ShapeState, release: Release) -> dict[str, Digest]:
    """Return a release's images by platform; of a promoted shape the one that was checked alone."""
    promoted = known.entry.record.body.get("image") if known.state == "promoted" else None
    images = {platform: image.digest for platform, image in release.images.items()}
    return {platform: one for platform, one in images.items() if promoted in (None, str(one))}


def _historical(entry: Entry, against: Against) -> Row:
    return Row(
        release=entry.record.subject,
        recipe=str(entry.record.body.get("deployment") or ""),
        shape="",
        state="historical",
        problems=tuple(against(entry.record.subject, "")),
        complete=False,
        digest=None,
        images={},
        waivers=(),
        since_s=None,
    )


def table_of(rows: Sequence[Row], now_s: int, *, reasons: bool = False) -> list[tuple[str, ...]]:
    """Return the table that people read, its heading first; with ``reasons`` also why a row may not be deployed."""
    heading = ("release", "recipe", "shape", "state", "images", "waived until", "since")
    if not reasons:
        return [heading, *(_cells(row, now_s) for row in rows)]
    return [(*heading, "why not"), *((*_cells(row, now_s), why_not(row)) for row in rows)]


def why_not(row: Row) -> str:
    """Say in one line what stands against deploying a row."""
    return "; ".join(problem.message for problem in row.problems)


def _cells(row: Row, now_s: int) -> tuple[str, ...]:
    state = row.state if row.complete or row.state in ("historical", "retired") else f"{row.state}, not deployable"
    images = " ".join(f"{platform.removeprefix('linux/')}:{one.short}" for platform, one in sorted(row.images.items()))
    since = "" if row.since_s is None else date_text(row.since_s)
    return (row.release, row.recipe, row.shape, state, images, _until(row.waivers, now_s), since)


def _until(waivers: Iterable[Waiver], now_s: int) -> str:
    """Write the last day of the waiver that ends first: it is the one that counts."""
    found = sorted(waivers, key=lambda one: one.expires_s)
    if not found:
        return ""
    day = date_text(found[0].expires_s - 1)
    return f"{day}, expired" if found[0].is_expired(now_s) else day


def document_of(rows: Sequence[Row], head: Digest | None, now_s: int) -> dict[str, Json]:
    """Return the rows as the body of a record."""
    return {
        "head": None if head is None else str(head),
        "releases": [
            {
                "release": row.release,
                "recipe": row.recipe,
                "shape": row.shape or None,
                "state": row.state,
                "deployable": not row.problems,
                "problems": [{"where": one.where, "message": one.message, "hint": one.hint} for one in row.problems],
                "complete": row.complete,
                "digest": None if row.digest is None else str(row.digest),
                "images": {platform: str(one) for platform, one in row.images.items()},
                "waivers": [
                    {"reason": one.reason, "expires_s": one.expires_s, "expired": one.is_expired(now_s)}
                    for one in row.waivers
                ],
                "since_s": row.since_s,
            }
            for row in rows
        ],
    }
