# SPDX-License-Identifier: Apache-2.0
"""What each patch of a series still does to a source, judged in order, each on what those before it left.

Core: no IO.

A patch that cannot be judged holds up none of the others: the series is followed as if it were not there, and what
changes the same files after it waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from derive.patches.absorbed import Parts, Place, parts_of
from derive.patches.apply import Refused, States, try_patch
from derive.patches.model import FileOperation, Read, reads, removes, writes
from derive.patches.proof import Landed, prove_patch
from derive.patches.shadows import Shadow, shadows


@dataclass(frozen=True, slots=True, kw_only=True)
class Applies:
    """Every hunk lands; ``landed`` says where."""

    landed: tuple[Landed, ...]

    @property
    def moved(self) -> tuple[Landed, ...]:
        """The hunks that land at another line than they say."""
        return tuple(one for one in self.landed if one.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowed:
    """It applies, and later patches leave nothing of what it does: they undo it, or overwrite every line of it."""

    by: tuple[str, ...]
    undone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Absorbed:
    """All that it does is there already: in the source, or else by earlier patches of the series."""

    in_source: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Partly:
    """Some of it is there already, and the rest applies."""

    absorbed: tuple[Place, ...]
    open: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicts:
    """Some of it neither applies nor is there already."""

    refused: tuple[Refused, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """It does not apply, in files alone that an earlier patch, which conflicts, would have changed."""

    on: tuple[str, ...]
    refused: tuple[Refused, ...]


Verdict: TypeAlias = Applies | Shadowed | Absorbed | Partly | Conflicts | Waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One patch of a series: what it is called, and what it does."""

    name: str
    operations: tuple[FileOperation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A patch and what it still does."""

    name: str
    verdict: Verdict


def judge(series: Sequence[Named], read: Read) -> tuple[Judged, ...]:
    """Judge every patch of a series against a source."""
    court = _Court(read)
    verdicts = [court.hear(patch) for patch in series]
    for index, shadow in shadows(court.followed, read).items():
        if isinstance(verdicts[index], Applies):
            verdicts[index] = _shadowed(shadow, series)
    return tuple(Judged(name=one.name, verdict=verdict) for one, verdict in zip(series, verdicts, strict=True))


def _shadowed(shadow: Shadow, series: Sequence[Named]) -> Shadowed:
    return Shadowed(by=tuple(series[index].name for index in shadow.by), undone=shadow.undone)


class _Court:
    """The states that the series has reached. ``followed`` is what of each patch was applied, perhaps nothing."""

    def __init__(self, read: Read) -> None:
        self._states = States(read)
        self._failed: dict[bytes, list[str]] = {}
        self.followed: list[tuple[FileOperation, ...]] = []

    def hear(self, patch: Named) -> Verdict:
        """Judge the next patch, and go on from what it leaves."""
        tried = try_patch(patch.operations, self._states.at)
        if not tried.refused:
            prove_patch(patch.name, patch.operations, self._states.at, tried.after, tried.landed)
            self._follow(patch.operations)
            return Applies(landed=tried.landed)
        parts = parts_of(patch.operations, tried, self._states.at)
        if parts.refused:
            return self._refuse(patch, parts)
        self._follow(parts.left)
        if parts.left:
            return Partly(absorbed=parts.absorbed, open=parts.open)
        return Absorbed(in_source=self._is_in_source(patch.operations))

    def _follow(self, operations: tuple[FileOperation, ...]) -> None:
        self._states.update(try_patch(operations, self._states.at).after)
        self.followed.append(operations)

    def _refuse(self, patch: Named, parts: Parts) -> Verdict:
        self.followed.append(())
        places = {one.path for one in parts.refused}
        blamed = dict.fromkeys(name for path in sorted(places) for name in self._failed.get(path, ()))
        waits = places <= self._failed.keys()
        for path in {path for one in patch.operations for path in (reads(one), writes(one), removes(one)) if path}:
            self._failed.setdefault(path, []).append(patch.name)
        if waits:
            return Waits(on=tuple(blamed), refused=parts.refused)
        return Conflicts(refused=parts.refused)

    def _is_in_source(self, operations: tuple[FileOperation, ...]) -> bool:
        parts = parts_of(operations, try_patch(operations, self._states.original), self._states.original)
        return not parts.left and not parts.refused
