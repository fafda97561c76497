# SPDX-License-Identifier: Apache-2.0
"""Holds builders that a person names to the guards that the user's settings give them.

Edge: the user's settings, clients of BuildKit, hosts that are asked and watched.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from derive.errors import DeriveError, HostRefuses, Interrupted, Unavailable
from derive.schedule.choose import configured
from derive.schedule.config import ExecutorEntry, Guard
from derive.schedule.graph import can_go_elsewhere
from derive.schedule.idle import Verdict, may_build, reason_of
from derive.schedule.idle_watch import Watch, look

if TYPE_CHECKING:
    from derive.build.plan import Step
    from derive.schedule.choose import Chosen

_TRIES = 4
_PAUSE_S = 1.0
"""A host that was left a moment ago may not yet know that it was."""


def names_of(builders: Iterable[str], *, offline: bool = False) -> tuple[str, ...]:
    """Return the names of builders, with that of the current one in the place of no name, unless ``offline``.

    Raises as :func:`derive.buildkit.builders.find_builder`.
    """
    from derive.buildkit.builders import find_builder

    return tuple(dict.fromkeys(name if name or offline else find_builder().name for name in builders))


def guards_of(builders: Iterable[str], environ: Mapping[str, str]) -> tuple[tuple[str, Guard], ...]:
    """Return the guards of some builders, with the names of their executors; nobody is asked where none is set.

    Raises:
        InputErrors: for all that is wrong with the user's settings.
        HostRefuses, Unavailable: when it cannot be found out which builder the current one is.
    """
    guards = [(one.builder, one.name, one.guard) for one in configured(environ) if one.guard is not None]
    if all(builder is None for builder, _, _ in guards):
        return ()
    names = names_of(builders)
    return tuple((name, guard) for builder, name, guard in guards if builder in names)


def require_idle(builders: Iterable[str], environ: Mapping[str, str]) -> None:
    """Ask the hosts of some builders that have a guard whether they may build now.

    Raises:
        HostRefuses: when one may not, or does not say.
    """
    for name, guard in guards_of(builders, environ):
        verdict = ask(name, guard)
        if not verdict.may:
            raise refusal([(name, verdict)])


def require_hosts(steps: Iterable[Step], chosen: Chosen) -> None:
    """Ask those that steps cannot be done without: whether a guard's host may build, and whether a builder answers.

    Raises:
        HostRefuses: when guards keep all of them from some of the steps, with the reasons of each.
        Unavailable: when nobody can do some of the steps for other reasons, too.
    """
    for platform in sorted({step.derivation.build if can_go_elsewhere(step.derivation) else "any" for step in steps}):
        refused = []
        for entry in _able(platform, chosen):
            verdict = Verdict(jobs=1) if entry is None else _stands(entry, platform)
            if entry is None or verdict.may:
                break
            refused.append((entry, verdict))
        else:
            if refused:  # nobody at all is told of when steps are placed
                raise _nobody(platform, refused)


def _stands(entry: ExecutorEntry, platform: str) -> Verdict:
    from derive.buildkit.builders import usable_builder

    verdict = Verdict(jobs=1) if entry.guard is None else ask(entry.name, entry.guard)
    if entry.builder is not None and verdict.may:
        try:
            usable_builder(entry.builder, platform)
        except DeriveError as error:
            return Verdict(jobs=0, reasons=(reason_of(error),))
    return verdict


def _nobody(platform: str, refused: Sequence[tuple[ExecutorEntry, Verdict]]) -> DeriveError:
    kind = HostRefuses if all(entry.guard is not None for entry, _ in refused) else Unavailable
    return kind(
        "this machine may build nothing now" if platform == "any" else f"nobody can run steps of {platform} now",
        detail=[f"{entry.name}  {'; '.join(verdict.reasons)}" for entry, verdict in refused],
        hint="derive executors says how they stand; name others with --on, or run it again later",
    )


def _able(platform: str, chosen: Chosen) -> list[ExecutorEntry | None]:
    """Return who can do steps of a platform, those without a guard first; None is this machine without a table."""
    own = next((entry for entry in chosen.entries if entry.is_here), None)
    found: list[ExecutorEntry | None] = [one for one in chosen.entries if not one.is_here and platform in one.platforms]
    if platform == "any" or (chosen.here and (own is None or not own.platforms or platform in own.platforms)):
        found.append(own)
    return sorted(found, key=lambda one: one is not None and one.guard is not None)


def ask(name: str, guard: Guard) -> Verdict:
    """Ask a host whether it may build; one that does not say may not.

    Where nothing but another build hinders it, it is asked again for a while: that may be what this machine left there.
    """
    verdict = Verdict(jobs=0)
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE_S)
        try:
            facts = look(name, guard)
        except DeriveError as error:
            return Verdict(jobs=0, reasons=(reason_of(error),))
        verdict = may_build(facts, guard)
        if facts.holder is None or not may_build(replace(facts, holder=None), guard).may:
            break
    return verdict


@contextmanager
def watched(builders: Iterable[str], environ: Mapping[str, str]) -> Iterator[Event]:
    """Hold the hosts of some builders that have a guard while something runs there, and yield what stops it.

    Raises:
        HostRefuses: when one may not build, or may no longer.
    """
    stop = Event()
    with ExitStack() as held:
        watches = [held.enter_context(_held(name, guard, stop)) for name, guard in guards_of(builders, environ)]
        try:
            yield stop
        except Interrupted as error:
            reasons = [(watch.name, Verdict(jobs=0, reasons=watch.stop)) for watch in watches if watch.stop]
            if not reasons:
                raise
            raise refusal(reasons) from error


@contextmanager
def _held(name: str, guard: Guard, stop: Event) -> Iterator[Watch]:
    verdict = Verdict(jobs=0)
    for number in range(_TRIES):
        watch = Watch(name, guard)
        watch.changed = partial(_tripped, watch, stop)
        watch.begin()
        try:
            verdict = watch.wait()
            if verdict.may:
                yield watch
                return
        finally:
            watch.close()
        if number + 1 < _TRIES:
            time.sleep(_PAUSE_S)
    raise refusal([(name, verdict)])


def _tripped(watch: Watch, stop: Event) -> None:
    if watch.stop:
        stop.set()


def refusal(refused: Iterable[tuple[str, Verdict]]) -> HostRefuses:
    """Return what is raised where hosts may not build."""
    return HostRefuses(
        "nothing may be built there now: its host has a guard",
        detail=[f"{name}  {'; '.join(verdict.reasons)}" for name, verdict in refused],
        hint="derive executors says how they stand; run it again later, or name another builder",
    )
