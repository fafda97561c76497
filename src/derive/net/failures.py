# SPDX-License-Identifier: Apache-2.0
"""How one mirror can fail, and what all failures together mean.

Core: no IO. These exceptions stay inside ``derive.net``; :func:`verdict` turns them into an error for a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from derive.errors import Corrupt, DeriveError, Unavailable, UpstreamGone
from derive.net.places import Wanted, display


class Failure(Exception):
    """One mirror did not serve one artifact."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Gone(Failure):
    """The mirror answers, and has no such file."""


class Refused(Failure):
    """The mirror will not serve it, and asking again will not help."""


class Broken(Failure):
    """It may work when tried again. ``silent``: the host did not answer at all; ``after`` seconds it asked for."""

    def __init__(self, reason: str, *, silent: bool = False, after: float | None = None) -> None:
        super().__init__(reason)
        self.silent = silent
        self.after = after


class Wrong(Failure):
    """The mirror served other bytes; ``detail`` holds expected and got."""

    def __init__(self, reason: str, detail: Sequence[str]) -> None:
        super().__init__(reason)
        self.detail = tuple(detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One mirror, and how it failed."""

    url: str
    failure: Failure

    def __str__(self) -> str:
        return f"{display(self.url)}: {self.failure.reason}"


def delays(first: float, longest: float) -> Iterator[float]:
    """Yield the pauses between attempts, in seconds: doubled each time, up to the longest."""
    pause = first
    while True:
        yield min(pause, longest)
        pause *= 2


def verdict(wanted: Wanted, tried: Sequence[Tried]) -> DeriveError:
    """Return the error that says what all mirrors' failures mean."""
    subject = f"{wanted.name} {wanted.version}"
    lines = [f"tried     {item}" for item in tried]
    wrong = next((item.failure for item in tried if isinstance(item.failure, Wrong)), None)
    if wrong is not None:
        return Corrupt(
            f"{subject}: {wanted.file} is not what the lock names",
            detail=[*wrong.detail, *lines],
            hint="the upstream changed a published file, or something between alters it: compare with another mirror",
        )
    if tried and all(isinstance(item.failure, Gone) for item in tried):
        return UpstreamGone(
            f"{subject}: no mirror serves {wanted.locator}",
            detail=lines,
            hint=f"run: derive lock --update {wanted.name}, or configure an archive that still has it",
        )
    return Unavailable(
        f"{subject}: {wanted.file} could not be fetched",
        detail=lines,
        hint="run it again when the mirror answers, or configure another one; what was fetched is kept",
    )


def together(errors: Sequence[DeriveError], total: int) -> DeriveError:
    """Return one error for several artifacts, of the gravest kind among them."""
    if len(errors) == 1:
        return errors[0]
    for kind in (Corrupt, UpstreamGone, Unavailable):
        first = next((error for error in errors if isinstance(error, kind)), None)
        if first is not None:
            break
    else:
        return errors[0]
    ordered = sorted(errors, key=lambda error: (error is not first, error.message))
    shown = [line for error in ordered[:8] for line in (error.message, *(f"  {part}" for part in error.detail))]
    more = [f"and {len(errors) - 8} more"] if len(errors) > 8 else []
    return kind(f"{len(errors)} of {total} artifacts could not be fetched", detail=[*shown, *more], hint=first.hint)
