# SPDX-License-Identifier: Apache-2.0
"""Runs a plan: steps start when their inputs are there, on as many threads as there are jobs.

Edge: threads, the clock, the store. It decides nothing that the plan did not, but one thing: a step whose inputs turned
out equal to earlier ones is not run (early cutoff).
"""

from __future__ import annotations

import errno
import platform
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Protocol

from derive.build.builders import VERSIONS
from derive.build.context import Build, Context, Fetch
from derive.build.engine import engine_digest
from derive.build.noting import Notes, note_reused
from derive.build.order import Order
from derive.build.plan import Action, Knowledge, Known, Plan, Step, resolved_of
from derive.build.prices import FETCHES_AT_ONCE
from derive.canonical import Digest
from derive.derivations.model import (
    Derivation,
    FlatOutput,
    Output,
    ResolvedDerivation,
    TreeOutput,
    parse_output,
)
from derive.errors import (
    BuildFailed,
    Corrupt,
    DeriveError,
    HostRefuses,
    InputErrors,
    Interrupted,
    SeveralFailed,
    Unavailable,
)
from derive.sandbox.outcome import Runner
from derive.store.database import Realisation
from derive.store.local import LocalStore
from derive.store.space import free_bytes as room_on_disk

if TYPE_CHECKING:
    from derive.build.compile_server import CompileServers

_LAST_FETCHES_S = 1.0
_LAST_STEPS_S = 0.5
"""How long steps that run beside one that failed are waited for before they are stopped: they may be failing, too."""


class Progress(Protocol):
    """Is told what happens; shows it or not."""

    def begin(self, plan: Plan, expected_ns: int | None) -> None:
        """The plan starts; how long it may take is None where no past run tells."""

    def started(self, derivation: Derivation) -> None:
        """A step starts."""

    def finished(self, derivation: Derivation, outcome: str, duration_ns: int) -> None:
        """A step ended: ``fetched``, ``built``, ``reused``, ``stopped`` or ``failed``."""

    def note(self, message: str) -> None:
        """Something that a person should know, such as a mirror that does not answer; said once."""

    def checked(self, derivation: Derivation, differences: int) -> None:
        """A step was built again, and so many of its outputs came out otherwise."""

    def end(self) -> None:
        """The run is over, however it went."""

    def took(self, duration_ns: int, expected_ns: int | None) -> None:
        """All went well, in so much time."""


class Silent:
    """Shows nothing."""

    def begin(self, plan: Plan, expected_ns: int | None) -> None:
        """Show nothing."""

    def started(self, derivation: Derivation) -> None:
        """Show nothing."""

    def finished(self, derivation: Derivation, outcome: str, duration_ns: int) -> None:
        """Show nothing."""

    def note(self, message: str) -> None:
        """Show nothing."""

    def checked(self, derivation: Derivation, differences: int) -> None:
        """Show nothing."""

    def end(self) -> None:
        """Show nothing."""

    def took(self, duration_ns: int, expected_ns: int | None) -> None:
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
    things at once, which decides no byte. ``keep_failed``: a script that fails leaves its folders in the store.
    """

    store: LocalStore
    builders: Mapping[str, Build]
    fetch: Fetch
    sandbox: Callable[[], Runner]
    jobs: int
    inner_jobs: int
    progress: Progress = field(default_factory=Silent)
    keep_failed: bool = False
    _cancel: threading.Event = field(default_factory=threading.Event)
    _failed: threading.Event = field(default_factory=threading.Event)
    _outputs: dict[Digest, Mapping[str, Output]] = field(default_factory=dict)
    _notes: Notes | None = None
    _fetching: list[Future[Mapping[str, Output]]] = field(default_factory=list)
    _compilers: CompileServers | None = None
    _engine: str = ""

    def run(self, plan: Plan) -> Mapping[str, Output]:
        """Run the plan and return the target's outputs.

        Raises:
            BuildFailed, Unavailable, InputErrors, Corrupt: the failure of a step; what was finished is kept.
            SeveralFailed: those of the steps that were running when the first one failed, and failed too.
            Interrupted: on Ctrl-C, after every sandbox has been stopped.
        """
        self._engine = engine_digest().hex
        self._outputs = {s.derivation.id: s.outputs for s in plan.steps if s.outputs is not None}
        for derivation, resolved in () if self.store.read_only else plan.cutoffs:
            self.store.database.map_derivation(derivation.id, derivation.name, resolved, derivation.encoded())
        pending = [step for step in plan.steps if step.action is not Action.REUSE]
        if not pending:
            note_reused(self.store, plan.target)
            return self._outputs[plan.target.id]
        self._notes = Notes(self.store, plan, self.jobs)
        self.progress.begin(plan, self._notes.expected_ns)
        outcome = "failed"
        fetchers = ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="fetch")
        workers = ThreadPoolExecutor(self.jobs, thread_name_prefix="build")
        running: dict[Future[Mapping[str, Output]], Step] = {}
        self._compilers = _compile_servers()
        try:
            try:
                self._run_steps(pending, running, fetchers, workers)
            except DeriveError as error:
                found = self._with_others(error, running)
                if found is error:
                    raise
                raise found from error
            outcome = "done"
        except KeyboardInterrupt:
            outcome = "stopped"
            raise Interrupted("stopped", hint="run the same command again: everything finished is kept") from None
        finally:
            self.cancel()
            workers.shutdown(wait=True, cancel_futures=True)
            self._compilers.close()
            self._compilers = None
            # A transfer from a host that says nothing ends only with the host's time: it is left behind.
            fetchers.shutdown(wait=False, cancel_futures=True)
            wait(self._fetching, timeout=_LAST_FETCHES_S)
            self.progress.end()
            took_ns = self._notes.end(outcome)
            if outcome == "done":
                self.progress.took(took_ns, self._notes.expected_ns)
        return self._outputs[plan.target.id]

    def cancel(self) -> None:
        """Stop every running sandbox and transfer, and start nothing more."""
        self._cancel.set()
        self.fetch.stop()

    def _with_others(self, first: DeriveError, running: Mapping[Future[Mapping[str, Output]], Step]) -> DeriveError:
        """Stop the steps that still run, and return the failure with those of them that fail too, not being stopped."""
        others = [future for future in running if future not in self._fetching and not future.cancel()]
        wait(others, timeout=_LAST_STEPS_S)
        self.cancel()
        wait(others)
        found = [first, *(future.exception() for future in others)]
        told = [one for one in found if isinstance(one, DeriveError) and not isinstance(one, Interrupted)]
        # What is not of one step, such as a full disk, is said once.
        errors = {_named(one): one for one in told}
        if len(errors) > 1:
            return SeveralFailed([errors[key] for key in sorted(errors)])
        return next(iter(errors.values()), first)

    def _run_steps(
        self,
        pending: list[Step],
        running: dict[Future[Mapping[str, Output]], Step],
        fetchers: ThreadPoolExecutor,
        workers: ThreadPoolExecutor,
    ) -> None:
        order = Order(pending)

        def submit(steps: Iterable[Step]) -> None:
            for step in steps:
                is_fetch = step.action is Action.FETCH
                future = (fetchers if is_fetch else workers).submit(self._run_step, step)
                running[future] = step
                if is_fetch:
                    self._fetching.append(future)

        submit(order.ready())
        failures: list[DeriveError] = []
        # After a transfer that failed the others go on: what is missing is said at once, and nothing that came is lost.
        while running and not (failures and running.keys().isdisjoint(self._fetching)):
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                step = running.pop(future)
                try:
                    self._outputs[step.derivation.id] = future.result()
                except (Unavailable, Corrupt) as error:
                    if step.action is not Action.FETCH or isinstance(error, HostRefuses):
                        raise
                    failures.append(error)
                else:
                    submit(() if failures else order.done(step))
        if failures:
            from derive.net.failures import together

            raise together(failures, len(self._fetching))

    def _run_step(self, step: Step) -> Mapping[str, Output]:
        is_fetch = step.action is Action.FETCH
        if self._cancel.is_set() or (self._failed.is_set() and not is_fetch):
            raise Interrupted("stopped")
        derivation = step.derivation
        started = time.monotonic_ns()
        outcome = "failed"
        self.progress.started(derivation)
        try:
            resolved, outputs, outcome = self._realise(derivation)
            if self._notes is not None:
                self._notes.step(step, resolved, outputs, outcome, time.monotonic_ns() - started)
        except Interrupted:
            outcome = "stopped"
            raise
        except OSError as error:
            raise _translate(error, self.store) from error
        finally:
            if outcome == "failed" and not is_fetch:
                self._failed.set()  # before another step takes this one's place
            self.progress.finished(derivation, outcome, time.monotonic_ns() - started)
        return outputs

    def _realise(self, derivation: Derivation) -> tuple[Digest, Mapping[str, Output], str]:
        resolved = resolved_of(derivation, self._inputs(derivation))
        database = self.store.database
        # Held while building, so that two processes asked for the same thing build it once.
        with self.store.locked(f"build-{resolved.id.hex}", self._cancel):
            row = database.realisation(resolved.id)
            if row is not None:
                known = known_of(row)
                if all(is_present(self.store, output) for output in known.outputs.values()):
                    database.map_derivation(derivation.id, derivation.name, resolved.id, derivation.encoded())
                    return resolved.id, known.outputs, "reused"
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
        return resolved.id, outputs, "built" if derivation.fixed is None else "fetched"

    def _inputs(self, derivation: Derivation) -> dict[str, Output]:
        inputs: dict[str, Output] = {}
        for role, reference in derivation.inputs.items():
            fixed = reference.derivation.fixed
            inputs[role] = fixed if fixed is not None else self._outputs[reference.derivation.id][reference.output]
        return inputs

    def build(
        self, derivation: Derivation, resolved: ResolvedDerivation, log_name: str = "", *, from_nothing: bool = False
    ) -> Mapping[str, Output]:
        """Run one builder now, whatever the store knows, and return its outputs; its log is kept."""
        if VERSIONS.get(resolved.builder) != resolved.version:
            raise BuildFailed(
                f"{derivation.name}: this engine has no builder {resolved.builder}/{resolved.version}",
                hint="derive it with the engine that its release names",
            )
        log_path = self.store.log_path(log_name or f"{derivation.id.hex}.log")
        with log_path.open("wb") as log:
            try:
                return self._call(derivation, resolved, log, from_nothing=from_nothing)
            except DeriveError as error:
                if derivation.fixed is not None:
                    raise  # it names the artifact, and says all there is to say
                failure = _placed(error, derivation.name)
                if isinstance(failure, BuildFailed) and failure.hint is None and _can_be_entered(derivation):
                    failure.hint = _entering(derivation.name, kept=self.keep_failed)
                if not isinstance(failure, Interrupted):
                    log.write(_lines(failure).encode("utf-8", "backslashreplace"))
                    failure.log = str(log_path)
                raise failure from error.__cause__

    def _call(
        self, derivation: Derivation, resolved: ResolvedDerivation, log: IO[bytes], *, from_nothing: bool
    ) -> Mapping[str, Output]:
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
            places=derivation.places,
            keep=self.store.failed_path(derivation.id) if self.keep_failed else None,
            compilers=self._compilers,
            from_nothing=from_nothing,
        )
        return self.builders[resolved.builder](resolved, context)


def _compile_servers() -> CompileServers:
    from derive.build.compile_server import CompileServers  # not where nothing has to run

    return CompileServers()


def _named(error: DeriveError) -> tuple[str, str]:
    """Return what a failure is known and sorted by: the name of the step, in which its problems are, and the first."""
    problem = error.problems()[0]
    return problem.where, problem.message


def _can_be_entered(derivation: Derivation) -> bool:
    """Say whether a step runs a program in a sandbox whose folders are kept when it fails."""
    return derivation.builder in ("script", "kernel") and "root" in derivation.inputs


def _entering(name: str, *, kept: bool) -> str:
    """Return the next step after a script failed: to look at where it stopped."""
    if kept:
        return f"enter it where it stopped: derive shell {name} --failed"
    return f"run it with --keep-failed, and enter it where it stopped: derive shell {name} --failed"


def _placed(error: DeriveError, name: str) -> DeriveError:
    """Say in which step an error came up."""
    if not isinstance(error, InputErrors):
        error.where = error.where or name
        return error
    return InputErrors([replace(problem, where=_place(problem.where, name)) for problem in error.problems()])


def _place(where: str, name: str) -> str:
    if where == name or where.startswith(f"{name}: "):
        return where
    return f"{name}: {where}" if where else name


def _lines(error: DeriveError) -> str:
    """Write an error as the last lines of a log."""
    rows: list[str] = []
    for problem in error.problems():
        place = "" if problem.where == error.where else f"{problem.where}: "
        rows += [f"failed: {place}{problem.message}", *(f"  {line}" for line in problem.detail)]
    return "".join(f"{row}\n" for row in rows)


def _translate(error: OSError, store: LocalStore) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return HostRefuses(
            f"no space left in the store {store.root}",
            detail=[f"free      {free_bytes(store) >> 20} MiB"],
            hint="free some space, or name a store on a larger disk with --store; everything finished is kept",
        )
    return error


def free_bytes(store: LocalStore) -> int:
    """Return the bytes that this user can still write in the store's file system; a lot where that sets no bound."""
    return room_on_disk(store.root)
