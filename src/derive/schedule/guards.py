# SPDX-License-Identifier: Apache-2.0
"""Holds builders that a person names to the guards that the user's settings give them.

Edge: the user's settings, clients of BuildKit, hosts that are asked and watched.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event

from derive.errors import DeriveError, HostRefuses, Interrupted
from derive.schedule.choose import configured
from derive.schedule.config import ExecutorEntry, Guard
from derive.schedule.idle import Verdict, may_build
from derive.schedule.idle_watch import Watch, look

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


def require_one(entries: Sequence[ExecutorEntry]) -> None:
    """Ask executors until one may take steps, as one without a guard always may.

    Raises:
        HostRefuses: when none may, with the reasons of each.
    """
    refused = []
    for entry in sorted(entries, key=lambda one: one.guard is not None):
        verdict = Verdict(jobs=1) if entry.guard is None else ask(entry.name, entry.guard)
        if verdict.may:
            return
        refused.append((entry.name, verdict))
    raise refusal(refused)


def ask(name: str, guard: Guard) -> Verdict:
    """Ask a host once whether it may build; one that does not say may not."""
    try:
        return may_build(look(name, guard), guard)
    except DeriveError as error:
        problem = error.problems()[0]
        return Verdict(jobs=0, reasons=("; ".join((problem.message, *problem.detail[:1])),))


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
