# SPDX-License-Identifier: Apache-2.0
"""Why a hunk does not apply: the one reason that fits best, with the line of the file and both texts.

Core: no IO.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from derive.errors import expected_got
from derive.patches.model import Hunk, Line
from derive.patches.place import CONTEXT, Unplaced, ends_file, occurrences
from derive.patches.reader import show_row

REFRESH = "make the patch again against the source that is locked"
ABSORBED = "delete the patch from the series if the source has absorbed it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A refusal in the parts of a Problem, its place left to the caller."""

    message: str
    detail: tuple[str, ...] = ()
    hint: str | None = REFRESH


@dataclass(frozen=True, slots=True)
class _Mismatch:
    """A line of the hunk beside the file's line at that place, None past its end."""

    line: Line
    number: int
    got: bytes | None


class Places:
    """Where each line of a file stands, its ending aside: worked out once, when the first hunk has no place."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self.lines = lines
        self._found: dict[bytes, list[int]] = {}

    def of(self, line: bytes) -> Sequence[int]:
        """Return the indexes at which a line stands."""
        if not self._found:
            for index, one in enumerate(self.lines):
                self._found.setdefault(one.rstrip(b"\r\n"), []).append(index)
        return self._found.get(line.rstrip(b"\r\n"), ())


def why_not(hunk: Hunk, places: Places, *, floor: int, found: Unplaced) -> Reason:
    """Say why a hunk has no place in a file."""
    lines = places.lines
    if not hunk.old:
        return Reason(message="the hunk is for an empty file, and the file has lines", detail=_first(lines))
    if len(found.usable) > 1:
        shown = _numbers(found.usable)
        return Reason(
            message=f"ambiguous: the hunk fits at {shown}, and not where it says, at line {hunk.start}",
            hint=f"{REFRESH}, with more context if need be (git diff -U10)",
        )
    if found.usable:
        return Reason(
            message=f"the hunk says line {hunk.start} and fits only at line {found.usable[0] + 1}, "
            "with too little context to be moved there",
            detail=expected_got(
                f"{CONTEXT} lines of context on each side", f"{hunk.leading} before, {hunk.trailing} after"
            ),
        )
    if found.fits:
        return _unusable(hunk, lines, floor, found.fits[0])
    applied = _already_applied(hunk, lines)
    return applied if applied is not None else _nearest(hunk, places)


def difference(wanted: bytes, got: bytes) -> tuple[str, ...]:
    """Return the detail lines for two whole contents that should have been equal."""
    ours, theirs = wanted.split(b"\n"), got.split(b"\n")
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    before, after = (side[at] if at < len(side) else None for side in (ours, theirs))
    return (f"line      {at + 1}", *expected_got(_show(before), _show(after)))


def _unusable(hunk: Hunk, lines: Sequence[bytes], floor: int, index: int) -> Reason:
    if index < floor:
        return Reason(
            message=f"the hunk fits at line {index + 1} alone, before the end of the hunk above it (line {floor})"
        )
    end = index + len(hunk.old)
    return Reason(
        message=f"the hunk fits at line {index + 1}, but shows the end of its file, and the file goes on",
        detail=(f"line      {end + 1}", *expected_got(_show(None), _show(lines[end]))),
    )


def _already_applied(hunk: Hunk, lines: Sequence[bytes]) -> Reason | None:
    if not any(line.tag == "+" for line in hunk.lines) and len(hunk.new) < 2:
        return None
    places = [
        index for index in occurrences(lines, hunk.new) if not ends_file(hunk) or index + len(hunk.new) == len(lines)
    ]
    if not places:
        return None
    return Reason(
        message=f"already applied: the new side is in the file at {_numbers(places)}",
        hint=ABSORBED,
    )


def _nearest(hunk: Hunk, places: Places) -> Reason:
    """Compare with the place where most lines agree, line endings aside."""
    start, agreeing = _best_alignment(hunk, places)
    mismatches = _mismatches(hunk, places.lines, start)
    first = mismatches[0]
    wanted, got = first.line.content, first.got
    detail = (f"agreeing  {agreeing} of {len(hunk.old)} lines", *expected_got(_show(wanted), _show(got)))
    if all(_same_but_for(b"\r\n", mismatch) for mismatch in mismatches):
        if all(_same_but_for(b"\n", mismatch) for mismatch in mismatches):
            message = f"only the newline at the end of the file differs, at line {first.number}"
            return Reason(message=message, detail=detail)
        sides = (_ending(wanted), _ending(got or b""))
        return Reason(
            message=f"only line endings differ, first at line {first.number}: "
            f"{sides[0]} in the patch, {sides[1]} in the file",
            detail=detail,
            hint="make the patch from the source as it is, with no conversion of line endings",
        )
    if all(mismatch.line.tag == " " for mismatch in mismatches):
        return Reason(message=f"context differs at line {first.number}; fuzz is never used", detail=detail)
    return Reason(message=f"the file differs from the hunk at line {first.number}", detail=detail)


def _best_alignment(hunk: Hunk, places: Places) -> tuple[int, int]:
    """Return the start index at which most old lines agree, the nearest to the stated one among equals."""
    stated = hunk.start - 1
    votes: Counter[int] = Counter()
    for step, line in enumerate(hunk.old):
        votes.update(at - step for at in places.of(line) if at >= step)
    if not votes:
        return stated, 0
    start = min(votes, key=lambda at: (-votes[at], abs(at - stated), at))
    exact = sum(
        mine == theirs for mine, theirs in zip(hunk.old, places.lines[start : start + len(hunk.old)], strict=False)
    )
    return start, exact


def _mismatches(hunk: Hunk, lines: Sequence[bytes], start: int) -> list[_Mismatch]:
    kept = [line for line in hunk.lines if line.tag != "+"]
    pairs = ((line, start + step) for step, line in enumerate(kept))
    compared = (_Mismatch(line, at + 1, lines[at] if at < len(lines) else None) for line, at in pairs)
    return [mismatch for mismatch in compared if mismatch.got != mismatch.line.content]


def _same_but_for(ending: bytes, mismatch: _Mismatch) -> bool:
    return mismatch.got is not None and mismatch.got.rstrip(ending) == mismatch.line.content.rstrip(ending)


def _ending(line: bytes) -> str:
    if line.endswith(b"\r\n"):
        return "CRLF"
    return "LF" if line.endswith(b"\n") else "none"


def _numbers(indexes: Sequence[int]) -> str:
    shown = ", ".join(str(index + 1) for index in indexes[:5])
    more = f" and {len(indexes) - 5} more" if len(indexes) > 5 else ""
    return f"line{'s' if len(indexes) > 1 else ''} {shown}{more}"


def _first(lines: Sequence[bytes]) -> tuple[str, ...]:
    return expected_got(_show(None), _show(lines[0]))


def _show(line: bytes | None) -> str:
    return "the end of the file" if line is None else show_row(line)
