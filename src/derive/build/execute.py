# SPDX-License-Identifier: Apache-2.0
"""Runs a plan: steps start when their inputs are there, on as many threads as there are jobs.

Edge: threads, the clock, the store. It decides nothing that the plan did not, but one thing: a step whose inputs turned
out equal to earlier ones is not run (early cutoff).
"""

from __future__ import annotations

import errno
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import IO, Protocol

from derive.build.builders import VERSIONS
from derive.build.context import Build, Context, Fetch
from derive.build.engine import engine_digest
from derive.build.plan import Action, Knowledge, Known, Plan, Step, resolved_of
from derive.canonical import Digest
from derive.derivations.model import Derivation, FlatOutput, Output, ResolvedDerivation, TreeOutput, parse_output
from derive.errors import BuildFailed, DeriveError, HostRefuses, InputErrors, Interrupted, Problem
from derive.sandbox.outcome import Runner
from derive.store.database import Realisation
from derive.store.local import LocalStore

_FETCHES_AT_ONCE = 8


class Progress(Protocol):
    """Is told what happens; shows it or not."""

    def begin(self, plan: Plan) -> None:
        """The plan starts."""

    def started(self, derivation: Derivation) -> None:
        """A step starts."""

    def finished(self, derivation: Derivation, outcome: str, duration_ns: int) -> None:
        """A step ended: ``fetched``, ``built``, ``reused``, ``stopped`` or ``failed``."""

    def end(self) -> None:
        """The run is over."""


class Silent:
    """Shows nothing."""

    def begin(self, plan: Plan) -> None:
        """Show nothing."""

    def started(self, derivation: Derivation) -> None:
        """Show nothing."""

    def finished(self, derivation: Derivation, outcome: str, duration_ns: int) -> None:
        """Show nothing."""

    def end(self) -> None:
        """Show nothing."""


def store_knowledge(store: LocalStore) -> Knowledge:
    """Return the store's answers for the planner."""

    def realised(wanted: object) -> Mapping[Digest, Known]:
        rows = store.database.realisations(wanted)  # type: ignore[arg-type]
        return {digest: known_of(row) for digest, row in rows.items()}

    return Knowledge(
        resolved_ids=store.database.resolved_ids,
        realised=realised,
        present=lambda output: is_present(store, output),
    )


def known_of(row: Realisation) -> Known:
    """Return a database row as the planner's value."""
    outputs = {name: parse_output(text) for name, text in row.outputs.items()}
    return Known(resolved=row.resolved, outputs=outputs, duration_ns=row.duration_ns)


def is_present(store: LocalStore, output: Output) -> bool:
    """Say whether an output's contents can be read from the store now."""
    match output:
        case TreeOutput(digest):
            return store.has_tree(digest)
        case FlatOutput(digest):
            return store.has_blob(digest)


@dataclass(slots=True, kw_only=True)
class Executor:
    """Runs plans against one store.

    ``builders`` maps builder names to functions. ``jobs`` steps run at once; each is told that it may do ``inner_jobs``
    things at once, which decides no byte.
    """

    store: LocalStore
    builders: Mapping[str, Build]
    fetch: Fetch
    sandbox: Callable[[], Runner]
    jobs: int
    inner_jobs: int
    progress: Progress = field(default_factory=Silent)
    _cancel: threading.Event = field(default_factory=threading.Event)
    _outputs: dict[Digest, Mapping[str, Output]] = field(default_factory=dict)
    _engine: str = ""

    def run(self, plan: Plan) -> Mapping[str, Output]:
        """Run the plan and return the target's outputs.

        Raises:
            BuildFailed, Unavailable, InputErrors, Corrupt: the first failure; what was finished is kept.
            Interrupted: on Ctrl-C, after every sandbox has been stopped.
        """
        self._engine = engine_digest().hex
        self._outputs = {s.derivation.id: s.outputs for s in plan.steps if s.outputs is not None}
        pending = [step for step in plan.steps if step.action is not Action.REUSE]
        if not pending:
            return self._outputs[plan.target.id]
        self.progress.begin(plan)
        fetchers = ThreadPoolExecutor(_FETCHES_AT_ONCE, thread_name_prefix="fetch")
        workers = ThreadPoolExecutor(self.jobs, thread_name_prefix="build")
        try:
            self._run_steps(pending, fetchers, workers)
        except KeyboardInterrupt:
            raise Interrupted("stopped", hint="run the same command again: everything finished is kept") from None
        finally:
            self._cancel.set()
            fetchers.shutdown(wait=True, cancel_futures=True)
            workers.shutdown(wait=True, cancel_futures=True)
            self.progress.end()
        return self._outputs[plan.target.id]

    def cancel(self) -> None:
        """Stop every running sandbox and start nothing more."""
        self._cancel.set()

    def _run_steps(self, pending: list[Step], fetchers: ThreadPoolExecutor, workers: ThreadPoolExecutor) -> None:
        waiting = {step.derivation.id: step for step in pending}
        blockers = {
            key: {r.derivation.id for r in step.derivation.inputs.values()} & waiting.keys()
            for key, step in waiting.items()
        }
        dependents: dict[Digest, list[Digest]] = {}
        for key, needs in blockers.items():
            for need in needs:
                dependents.setdefault(need, []).append(key)
        running: dict[Future[Mapping[str, Output]], Digest] = {}

        def submit(key: Digest) -> None:
            step = waiting[key]
            pool = fetchers if step.action is Action.FETCH else workers
            running[pool.submit(self._run_step, step)] = key

        for key in waiting:
            if not blockers[key]:
                submit(key)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                key = running.pop(future)
                self._outputs[key] = future.result()
                for dependent in dependents.get(key, ()):
                    blockers[dependent].discard(key)
                    if not blockers[dependent]:
                        submit(dependent)

    def _run_step(self, step: Step) -> Mapping[str, Output]:
        if self._cancel.is_set():
            raise Interrupted("stopped")
        derivation = step.derivation
        started = time.monotonic_ns()
        outcome = "failed"
        self.progress.started(derivation)
        try:
            outputs, outcome = self._realise(derivation)
        except Interrupted:
            outcome = "stopped"
            raise
        except OSError as error:
            raise _translate(error, self.store) from error
        finally:
            self.progress.finished(derivation, outcome, time.monotonic_ns() - started)
        return outputs

    def _realise(self, derivation: Derivation) -> tuple[Mapping[str, Output], str]:
        resolved = resolved_of(derivation, self._inputs(derivation))
        database = self.store.database
        # Held while building, so that two processes asked for the same thing build it once.
        with self.store.locked(f"build-{resolved.id.hex}"):
            row = database.realisation(resolved.id)
            if row is not None:
                known = known_of(row)
                if all(is_present(self.store, output) for output in known.outputs.values()):
                    database.map_derivation(derivation.id, derivation.name, resolved.id, derivation.encoded())
                    return known.outputs, "reused"
            started = time.monotonic_ns()
            outputs = self.build(derivation, resolved)
            entry = Realisation(
                resolved=resolved.id,
                outputs={name: str(output) for name, output in outputs.items()},
                builder=f"{derivation.builder}/{derivation.version}",
                engine=self._engine,
                host=platform.machine(),
                duration_ns=time.monotonic_ns() - started,
                log=f"{derivation.id.hex}.log",
                built_s=int(time.time()),
            )
            keep = database.add_realisation if row is None else database.replace_realisation
            keep(entry, derivation.id, derivation.name, derivation.encoded())
        return outputs, "built" if derivation.fixed is None else "fetched"

    def _inputs(self, derivation: Derivation) -> dict[str, Output]:
        inputs: dict[str, Output] = {}
        for role, reference in derivation.inputs.items():
            fixed = reference.derivation.fixed
            inputs[role] = fixed if fixed is not None else self._outputs[reference.derivation.id][reference.output]
        return inputs

    def build(self, derivation: Derivation, resolved: ResolvedDerivation, log_name: str = "") -> Mapping[str, Output]:
        """Run one builder now, whatever the store knows, and return its outputs; its log is kept."""
        if VERSIONS.get(resolved.builder) != resolved.version:
            raise BuildFailed(
                f"{derivation.name}: this engine has no builder {resolved.builder}/{resolved.version}",
                hint="derive it with the engine that its release names",
            )
        log_path = self.store.log_path(log_name or f"{derivation.id.hex}.log")
        with log_path.open("wb") as log:
            try:
                return self._call(derivation, resolved, log)
            except BuildFailed as error:
                error.log = str(log_path)
                error.where = error.where or derivation.name
                raise
            except InputErrors as error:
                raise InputErrors([_placed(problem, derivation.name) for problem in error.problems()]) from error
            except DeriveError as error:
                error.where = error.where or derivation.name
                raise

    def _call(self, derivation: Derivation, resolved: ResolvedDerivation, log: IO[bytes]) -> Mapping[str, Output]:
        def write(data: bytes) -> None:
            log.write(data)
            log.flush()

        context = Context(
            name=derivation.name,
            labels=derivation.labels,
            store=self.store,
            fetch=self.fetch,
            sandbox=self.sandbox,
            log=lambda line: write(line.encode("utf-8", "backslashreplace") + b"\n"),
            log_bytes=write,
            jobs=self.inner_jobs,
            scratch=self.store.staging.new_path(),
            cancel=self._cancel,
            timeout_s=derivation.timeout_s,
        )
        return self.builders[resolved.builder](resolved, context)


def _placed(problem: Problem, name: str) -> Problem:
    """Say in which step a problem came up."""
    if problem.where.startswith(name):
        return problem
    return replace(problem, where=f"{name}: {problem.where}" if problem.where else name)


def _translate(error: OSError, store: LocalStore) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return HostRefuses(
            f"no space left in the store {store.root}",
            detail=[f"free      {free_bytes(store) >> 20} MiB"],
            hint="free some space, or name a store on a larger disk with --store; everything finished is kept",
        )
    return error


def free_bytes(store: LocalStore) -> int:
    """Return the bytes that this user can still write in the store's file system."""
    stats = os.statvfs(store.root)
    return stats.f_bavail * stats.f_frsize
