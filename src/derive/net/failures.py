# SPDX-License-Identifier: Apache-2.0
"""How one mirror can fail, and what all failures together mean.

Core: no IO. These exceptions stay inside ``derive.net``; :func:`verdict` turns them into an error for a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import MappingProxyType

from derive.errors import Corrupt, DeriveError, Unavailable, UpstreamGone
from derive.net.places import Wanted


class Failure(Exception):
    """One mirror did not serve one artifact.

    ``status`` is the answer's, None where there was no answer; ``headers`` are the answer's, names in lower case.
    """

    def __init__(
        self, reason: str, *, status: int | None = None, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.headers = headers


class Gone(Failure):
    """The mirror answers, and has no such file."""


class Refused(Failure):
    """The mirror will not serve it, and asking again will not help."""


class Distrusted(Refused):
    """There is no trusted TLS connection to the host."""


class Skipped(Refused):
    """The host, or the archive, failed before in this run and was not asked."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason} (skipped in this run)")


class Misfit(Refused):
    """What the mirror sends does not go on from what came before: only a new beginning can help."""


class Broken(Failure):
    """It may work when tried again. ``silent``: the host did not answer at all; ``after`` seconds it asked for."""

    def __init__(
        self,
        reason: str,
        *,
        silent: bool = False,
        after: float | None = None,
        status: int | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(reason, status=status, headers=headers)
        self.silent = silent
        self.after = after


class TimedOut(Broken):
    """The host took the request, or did not even do that, and said nothing for as long as it may."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, silent=True)


class Wrong(Failure):
    """The mirror served other bytes; ``detail`` holds expected and got."""

    def __init__(self, reason: str, detail: Sequence[str]) -> None:
        super().__init__(reason)
        self.detail = tuple(detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One place as it may be shown, and how it failed."""

    place: str
    failure: Failure

    def __str__(self) -> str:
        return f"{self.place}: {self.failure.reason}"


def delays(first: float, longest: float) -> Iterator[float]:
    """Yield the pauses between attempts, in seconds: doubled each time, up to the longest."""
    pause = first
    while True:
        yield min(pause, longest)
        pause *= 2


def asked_pause(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer's Retry-After asks for, None where it asks for none.

    A date counts from the answer's own Date: neither clock need be right.
    """
    asked = headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdigit():
        return float(asked)
    try:
        pause = parsedate_to_datetime(asked) - parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, pause.total_seconds())


def verdict(wanted: Wanted, mirrors: Sequence[Tried], archives: Sequence[Tried] = ()) -> DeriveError:
    """Return the error that says what all failures mean; what archives lack makes no upstream gone."""
    lines = [f"tried     {item}" for item in (*mirrors, *archives)]
    wrong = next((item.failure for item in (*mirrors, *archives) if isinstance(item.failure, Wrong)), None)
    if mirrors and all(isinstance(item.failure, Gone) for item in mirrors):
        return UpstreamGone(
            f"{wanted.subject}: no mirror serves {wanted.locator}",
            detail=lines,
            hint=f"run: derive lock --update {wanted.name}, or configure an archive that still has it",
        )
    if wrong is not None:
        return Corrupt(
            f"{wanted.subject}: {wanted.file} is not what the lock names",
            detail=[*wrong.detail, *lines],
            hint="the upstream changed a published file, or something between alters it: compare with another mirror",
        )
    closed = any(item.failure.status in (401, 403) for item in mirrors)
    return Unavailable(
        f"{wanted.subject}: {wanted.file} could not be fetched",
        detail=lines,
        hint="log in, or set a token, for the place that refuses, and run it again; what was fetched is kept"
        if closed
        else "run it again when the mirror answers, or configure another one; what was fetched is kept",
    )


def unarchived(wanted: Wanted, archives: Sequence[Tried]) -> DeriveError:
    """Return the error for what no archive gave, where only archives were asked."""
    lines = [f"tried     {item}" for item in archives]
    wrong = next((item.failure for item in archives if isinstance(item.failure, Wrong)), None)
    if wrong is not None:
        return Corrupt(f"{wanted.subject}: an archive holds other bytes", detail=[*wrong.detail, *lines])
    message = f"{wanted.subject}: no archive has it" if archives else f"{wanted.subject}: no archive is configured"
    return Unavailable(message, detail=lines, hint="name archives in DERIVE_ARCHIVES, or in your config.toml")


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
