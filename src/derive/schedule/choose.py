# SPDX-License-Identifier: Apache-2.0
"""Which executors a run uses, from the user's settings and the command line; and what places its steps on them.

Edge: the user's settings, the environment, the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.derivations.model import FlatOutput, Output
from derive.errors import InputErrors, Problem
from derive.net.user import read_config, user_config
from derive.schedule.config import ExecutorEntry, Guard, parse_executors
from derive.schedule.graph import jobs_of_each, tasks_of, workers_of
from derive.schedule.model import HERE, Kind, Task, Timetable, Worker
from derive.schedule.speeds import Speed, Timed, speeds
from derive.store.history import placed_steps
from derive.toml import key_path
from derive.words import nearest

if TYPE_CHECKING:
    from derive.build.context import StepExecutor
    from derive.build.placing import Placing
    from derive.build.plan import Plan
    from derive.build.prices import Forecast
    from derive.schedule.dispatch import Lane
    from derive.schedule.idle_watch import Watch
    from derive.store.local import LocalStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The executors of a run. ``here`` says whether this machine runs programs, too, beside what only it can do.

    ``option`` is what named them.
    """

    entries: tuple[ExecutorEntry, ...]
    here: bool
    option: str = "--on"

    @property
    def not_asked(self) -> dict[str, tuple[str, ...]]:
        """Who is taken to be there and idle by whoever asks nobody: builders of buildx, and executors with a guard."""
        return {
            "builders": tuple(dict.fromkeys(one.builder for one in self.entries if one.builder is not None)),
            "guarded": tuple(one.name for one in self.entries if one.guard is not None),
        }


def configured(environ: Mapping[str, str]) -> tuple[ExecutorEntry, ...]:
    """Return the executors that the user's ``config.toml`` names; raises InputErrors for all that is wrong there."""
    file = user_config(environ)
    return parse_executors(read_config(file), str(file))


def choose(
    names: Sequence[str], environ: Mapping[str, str], *, executor: str = "", offline: bool = False, option: str = "--on"
) -> Chosen | None:
    """Return what is to be used; None where nothing is configured or named, and everything runs as it always does.

    ``executor`` is what was said beside, of builders for all steps: where one of them has a guard in the user's
    settings, steps are placed on the executors of those builders, under their guards. ``offline`` asks nobody which
    builder the current one is. ``option`` is what named them.

    Raises:
        InputErrors: for names that nothing has, and where both are said.
        HostRefuses, Unavailable: when it cannot be found out which builder the current one is, and guards are set.
    """
    if executor:
        if names:
            hint = "leave one of them out"
            raise InputErrors.one("--on and --executor both say where steps run", where="--on", hint=hint)
        return _guarded(executor, environ, offline=offline)
    entries = configured(environ)
    known = {entry.name: entry for entry in entries}
    unknown = [name for name in dict.fromkeys(names) if name not in known and name != HERE]
    problems = [_unknown(name, known, environ, option) for name in unknown]
    if problems:
        raise InputErrors(problems)
    own = next((entry for entry in entries if entry.is_here), None)
    here = not names or HERE in names or (own is not None and own.name in names)
    wanted = [entry for entry in entries if not names or entry.name in names or (entry.is_here and here)]
    return Chosen(entries=tuple(wanted), here=here) if wanted else None


def _guarded(executor: str, environ: Mapping[str, str], *, offline: bool) -> Chosen | None:
    """Return the executors of builders that were named, if any of them has a guard; None where none has."""
    from derive.buildkit.choose import chosen_builders
    from derive.schedule.guards import names_of

    entries = configured(environ)
    if not any(entry.guard is not None and not entry.is_here for entry in entries):
        return None
    wanted = names_of(chosen_builders(executor), offline=offline)
    found = tuple(entry for entry in entries if entry.builder in wanted)
    guarded = sorted({str(entry.builder) for entry in found if entry.guard is not None})
    if not guarded:
        return None
    known = {entry.builder for entry in found}
    problems = [
        Problem(
            where=f"--executor buildkit={','.join(wanted)}",
            message=f"the builder {name} is no executor's, and cannot be used beside {guarded[0]}, which has a guard",
            hint=f'leave it out, or write [executors.NAME] with builder = "{name}" in {user_config(environ)}',
        )
        for name in wanted
        if name not in known
    ]
    if problems:
        raise InputErrors(problems)
    return Chosen(entries=found, here=False, option="--executor")


def _unknown(name: str, known: Mapping[str, ExecutorEntry], environ: Mapping[str, str], option: str) -> Problem:
    meant = nearest(name, (*known, HERE))
    table = f"[{key_path(('executors', name))}]"
    hint = f"did you mean {meant}?" if meant is not None else f"write {table} in {user_config(environ)}"
    detail = (f"known     {', '.join((HERE, *sorted(known)))}",)
    return Problem(where=option, message=f"no executor {name!r}", detail=detail, hint=hint)


def measured(store: LocalStore) -> Mapping[str, Speed]:
    """Return how quick executors were beside this machine."""
    rows = placed_steps(store.database)
    return speeds(
        Timed(name=name, host=host, builder=builder, executor=executor, duration_ns=duration)
        for name, host, builder, executor, duration in rows
    )


def timetable(plan: Plan, forecast: Forecast, chosen: Chosen, store: LocalStore, jobs: int) -> Timetable:
    """Return who would run what of a plan, and when: as expected, if everybody is there and idle.

    Raises:
        InputErrors: when steps run programs of a platform that nobody who is chosen runs.
    """
    from derive.schedule.simulate import simulate

    tasks, workers = _told(plan, forecast, chosen, store, jobs)
    return simulate(tasks, workers)


def placer(
    chosen: Chosen, store: LocalStore, jobs: int, tell: Callable[[str], None]
) -> Callable[[Plan, Forecast], Placing]:
    """Return what makes, for a plan that is run, whoever places its steps."""

    def made(plan: Plan, forecast: Forecast) -> Placing:
        from derive.schedule.dispatch import Dispatch

        tasks, workers = _told(plan, forecast, chosen, store, jobs)
        entries = {entry.name: entry for entry in chosen.entries}
        return Dispatch(tasks, [_lane(worker, entries.get(worker.name), tell) for worker in workers], tell)

    return made


def _told(
    plan: Plan, forecast: Forecast, chosen: Chosen, store: LocalStore, jobs: int
) -> tuple[tuple[Task, ...], tuple[Worker, ...]]:
    found = {name: one.speed for name, one in measured(store).items()}
    workers = workers_of(chosen.entries, jobs=jobs, here=chosen.here, speeds=found)
    tasks = tasks_of(plan, forecast, lambda output: _size_of(store, output))
    if not chosen.here:
        _refuse_unplaced(tasks, workers, chosen.option)
    return tasks, workers


def _refuse_unplaced(tasks: Sequence[Task], workers: Sequence[Worker], option: str) -> None:
    left = [one for one in tasks if one.kind is Kind.SANDBOX and not any(worker.takes(one) for worker in workers)]
    if not left:
        return
    names = [worker.name for worker in workers if worker.rate is not None]
    problems = []
    for platform in sorted({one.platform for one in left}):
        those = [one.name for one in left if one.platform == platform]
        more = f" and {len(those) - 1} more" if len(those) > 1 else ""
        problems.append(
            Problem(
                where=option,
                message=f"nobody of {', '.join(names)} runs programs of {platform}",
                detail=(f"needed    by {those[0]}{more}",),
                hint=f"add this machine: --on {HERE}" if option == "--on" else "leave it out: this machine runs them",
            )
        )
    raise InputErrors(problems)


def _size_of(store: LocalStore, output: Output) -> int:
    """Return the bytes of the blobs under an output: what is read of an archive counts as all of it."""
    blobs = [output.digest] if isinstance(output, FlatOutput) else store.database.tree_blobs(output.digest)
    return sum(store.blob_path(blob).stat().st_size for blob in blobs if store.has_blob(blob))


def _lane(worker: Worker, entry: ExecutorEntry | None, tell: Callable[[str], None]) -> Lane:
    from derive.schedule.dispatch import Lane

    if entry is None:
        return Lane(worker=worker)
    guard = entry.guard
    return Lane(
        worker=worker,
        open=None if entry.builder is None else _opener(entry, entry.builder, tell),
        jobs=jobs_of_each(entry.cores, worker.slots),
        watch=None if guard is None else _watcher(entry.name, guard),
    )


def _opener(entry: ExecutorEntry, builder: str, tell: Callable[[str], None]) -> Callable[[], StepExecutor]:
    def opened() -> StepExecutor:
        from derive.buildkit.builders import usable_builder
        from derive.buildkit.run import BuildKitExecutor

        for platform in entry.platforms:
            usable_builder(builder, platform)
        return BuildKitExecutor(builders=(builder,), tries=1, note=tell)

    return opened


def _watcher(name: str, guard: Guard) -> Callable[[], Watch]:
    def made() -> Watch:
        from derive.schedule.idle_watch import Watch

        return Watch(name, guard)

    return made
