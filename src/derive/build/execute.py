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
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, TypeAlias

from derive.build.answers import free_bytes, is_present, known_of, store_knowledge
from derive.build.builders import VERSIONS
from derive.build.context import Build, Context, Fetch, StepExecutor
from derive.build.engine import engine_digest
from derive.build.failing import can_be_entered, entering, lines_of, named, placed
from derive.build.noting import Notes, note_reused
from derive.build.order import Order
from derive.build.placing import AtOnce, Place, Placing, StepLost
from derive.build.plan import Action, Plan, Step, resolved_of
from derive.build.prices import FETCHES_AT_ONCE, Forecast
from derive.build.substituting import Came, NotBrought, PlanAgain, Substitute, note_came, note_words
from derive.build.telling import Progress, Silent
from derive.cache.standing import Standing, standing_in
from derive.canonical import Digest
from derive.derivations.model import Derivation, Output, ResolvedDerivation
from derive.errors import (
    BuildFailed,
    Corrupt,
    DeriveError,
    HostRefuses,
    Interrupted,
    SeveralFailed,
    Unavailable,
)
from derive.sandbox.outcome import Runner
from derive.store.database import Realisation
from derive.store.local import LocalStore

if TYPE_CHECKING:
    from derive.build.compile_server import CompileServers

__all__ = ["Executor", "Progress", "Silent", "free_bytes", "is_present", "known_of", "store_knowledge"]

_Outputs: TypeAlias = Mapping[str, Output]

_LAST_FETCHES_S = 1.0
_LAST_STEPS_S = 0.5
"""How long steps that run beside one that failed are waited for before they are stopped: they may be failing, too."""


@dataclass(slots=True, kw_only=True)
class Executor:
    """Runs plans against one store.

    ``builders`` maps builder names to functions. ``jobs`` steps run at once; each is told that it may do ``inner_jobs``
    things at once, which decides no byte. ``keep_failed``: a script that fails leaves its folders in the store.
    ``executor`` runs scripts and compilers that are not placed elsewhere, None where this machine's sandbox does.
    ``placer`` makes what says which steps of a plan begin where; without, all run here, in the order in which they
    become ready. ``substitute`` has what other machines built; without, a plan has no step that is substituted.
    ``judge`` says what still counts of what came from them before. ``places`` says of steps that run where they do.
    """

    store: LocalStore
    builders: Mapping[str, Build]
    fetch: Fetch
    sandbox: Callable[[], Runner]
    jobs: int
    inner_jobs: int
    progress: Progress = field(default_factory=Silent)
    keep_failed: bool = False
    executor: StepExecutor | None = None
    placer: Callable[[Plan, Forecast], Placing] | None = None
    substitute: Substitute | None = None
    places: dict[Digest, Place] = field(default_factory=dict)
    judge: Standing = field(default_factory=lambda: standing_in(None))
    _came: Came = field(init=False)
    _workers: dict[Digest, Mapping[str, str]] = field(default_factory=dict)
    _cancel: threading.Event = field(default_factory=threading.Event)
    _placing: Placing = field(default_factory=lambda: AtOnce(1, threading.Event()))
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
        self._came = Came.of(self.store, self.judge).under(plan)
        note_words(self.store, plan, self.substitute)  # before anything that is found by them is noted
        for derivation, resolved in () if self.store.read_only else plan.cutoffs:
            self.store.database.map_derivation(derivation.id, derivation.name, resolved, derivation.encoded())
        pending = [step for step in plan.steps if step.action is not Action.REUSE]
        if not pending:
            note_reused(self.store, plan.target)
            return self._outputs[plan.target.id]
        self._notes = Notes(self.store, plan, self.jobs)
        if self.placer is None:
            self._placing = AtOnce(self.jobs, self._cancel)
        else:
            self._placing = self.placer(plan, self._notes.forecast)
        self.progress.begin(plan, self._notes.expected_ns)
        outcome = "failed"
        fetchers = ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="fetch")
        workers = ThreadPoolExecutor(self._placing.threads, thread_name_prefix="build")
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
            self._placing.close()
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
        if self.substitute is not None:
            self.substitute.stop()
        self._placing.stop()

    def _with_others(self, first: DeriveError, running: Mapping[Future[Mapping[str, Output]], Step]) -> DeriveError:
        """Stop the steps that still run, and return the failure with those of them that fail too, not being stopped."""
        others = [future for future in running if future not in self._fetching and not future.cancel()]
        wait(others, timeout=_LAST_STEPS_S)
        self.cancel()
        wait(others)
        found = [first, *(future.exception() for future in others)]
        told = [one for one in found if isinstance(one, DeriveError) and not isinstance(one, Interrupted)]
        # What is not of one step, such as a full disk, is said once.
        errors = {named(one): one for one in told}
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
        failures: list[DeriveError] = []
        missed: set[Digest] = set()
        spared: list[Step] = []

        def submit(steps: Iterable[Step]) -> None:
            for step in steps:
                if step.action is Action.BUILD:
                    self._placing.offer((step,))
                    continue
                future = fetchers.submit(self._run_step, step)
                running[future] = step
                self._fetching.append(future)
            for step, place in () if failures or spared else self._placing.take():
                self.places[step.derivation.id] = place
                running[workers.submit(self._run_step, step)] = step

        submit(order.ready())
        # After a transfer that failed the others go on: what is missing is said at once, and nothing that came is lost.
        while running or (self._placing.is_waiting and not spared):
            if failures and running.keys().isdisjoint(self._fetching):
                break
            ended = self._ended(running)
            for future in ended:
                step = running.pop(future)
                try:
                    is_done = self._keep(step, future)
                except NotBrought as error:
                    missed |= error.resolved  # what it was wanted for waits for another plan, in which it is built
                except (Unavailable, Corrupt) as error:
                    if step.action is not Action.FETCH or isinstance(error, HostRefuses):
                        raise
                    failures.append(error)
                else:
                    freed = order.done(step) if is_done and not failures else []
                    spared += self._known_elsewhere(freed)
                    submit(() if spared else freed)
            if not ended and self._placing.is_waiting:
                submit(())
        self._require_done(failures, missed, spared)

    def _require_done(self, failures: Sequence[DeriveError], missed: set[Digest], spared: Sequence[Step]) -> None:
        """Raise for what a plan could not do: what could not be fetched, what was not had, what need not be built."""
        if failures:
            from derive.net.failures import together

            raise together(failures, len(self._fetching))
        if missed:
            raise NotBrought("outputs that others vouch for could not be had", missed)
        if spared:
            raise PlanAgain(f"others vouch for {spared[0].derivation.name}, now that its inputs are known")

    def _known_elsewhere(self, steps: Sequence[Step]) -> list[Step]:
        """Return those steps, about to be built, that others vouch for as their inputs turned out, and nobody here."""
        if self.substitute is None:
            return []
        pairs = {}
        for step in steps:
            if step.action is Action.BUILD:
                resolved = resolved_of(step.derivation, self._inputs(step.derivation)).id
                row = self.store.database.realisation(resolved)
                if row is None or not self._came.takes(step.derivation, row):
                    pairs[resolved] = step
        said = self.substitute.vouched([(step.derivation, resolved) for resolved, step in pairs.items()])
        return [step for key, step in pairs.items() if key in said and self._came.believes(step.derivation, said[key])]

    def _ended(self, running: Mapping[Future[Mapping[str, Output]], Step]) -> set[Future[Mapping[str, Output]]]:
        """Wait for steps that end; returns also without any where steps may have to be placed anew."""
        patience = self._placing.poll_s
        if not running:
            time.sleep(patience or _LAST_STEPS_S)
        return wait(running, timeout=patience, return_when=FIRST_COMPLETED)[0]

    def _keep(self, step: Step, future: Future[Mapping[str, Output]]) -> bool:
        """Keep what a step gave; False where it was lost, and waits again. Raises what the step raised."""
        place = self.places.pop(step.derivation.id, None)
        try:
            self._outputs[step.derivation.id] = future.result()
        except StepLost:
            if place is not None:
                self._placing.lost(step, place)
            return False
        if place is not None:
            self._placing.ended(step, place)
        return True

    def _is_lost(self, step: Step, error: DeriveError) -> bool:
        """Say whether a step failed for where it ran, and is to run again."""
        place = self.places.get(step.derivation.id)
        return place is not None and not self._cancel.is_set() and self._placing.is_lost(step, place, error)

    def _run_step(self, step: Step) -> Mapping[str, Output]:
        is_fetch = step.action is not Action.BUILD
        if self._cancel.is_set() or (self._failed.is_set() and not is_fetch):
            raise Interrupted("stopped")
        derivation, started, outcome = step.derivation, time.monotonic_ns(), "failed"
        place = self.places.get(derivation.id)
        self.progress.started(derivation, None if place is None else place.elsewhere)
        try:
            resolved, outputs, outcome = self._substituted(step) or self._realise(derivation)
            if self._notes is not None:
                took = time.monotonic_ns() - started
                self._notes.step(step, resolved, outputs, outcome, took, self._ran_at(derivation, resolved, outcome))
        except DeriveError as error:
            is_lost = self._is_lost(step, error)
            if is_lost or isinstance(error, Interrupted):
                outcome = "stopped"
            if isinstance(error, NotBrought):
                outcome = "absent"
            if is_lost:
                raise StepLost from error
            raise
        except OSError as error:
            raise _translate(error, self.store) from error
        finally:
            if outcome == "failed" and not is_fetch:
                self._failed.set()  # before another step takes this one's place
            self.progress.finished(derivation, outcome, time.monotonic_ns() - started)
        return outputs

    def _ran_at(self, derivation: Derivation, resolved: Digest, outcome: str) -> str | None:
        """Return where a step's programs ran: its executor, or the builder that was named; None for this machine."""
        place = self.places.get(derivation.id)
        if place is not None and place.elsewhere is not None:
            return place.elsewhere
        if self.executor is None or outcome != "built":
            return None
        worker = self.store.database.worker(resolved)
        return f"{worker.get('executor')}={worker.get('builder')}" if worker else None  # no executor has such a name

    def _substituted(self, step: Step) -> tuple[Digest, Mapping[str, Output], str] | None:
        """Take a step's outputs from a cache; None where the plan has it made here."""
        vouch, derivation = step.vouch, step.derivation
        if step.action is not Action.SUBSTITUTE or vouch is None or self.substitute is None:
            return None
        with self.store.locked(f"build-{vouch.resolved.hex}", self._cancel):
            row = self.store.database.realisation(vouch.resolved)
            if row is None or not self._came.takes(derivation, row):
                cache = self.substitute.bring(derivation, vouch, self._cancel)
                note_came(self.store, derivation, vouch, cache, self.substitute.signers(vouch))
                return vouch.resolved, vouch.outputs, "substituted"
        return vouch.resolved, known_of(row).outputs, "reused"

    def _compare(self, derivation: Derivation, resolved: Digest, row: Realisation | None, got: _Outputs) -> None:
        """Compare what was built with what others say, and with what had come from them; raises Contradicted."""
        if self.substitute is not None:
            self.substitute.agree(derivation, resolved, got, self._came.asked.get(derivation.id, ()))
        if row is not None:
            said = self._came.compare(derivation, row, got)
            if said is not None:
                self.progress.note(said)

    def _realise(self, derivation: Derivation) -> tuple[Digest, Mapping[str, Output], str]:
        resolved = resolved_of(derivation, self._inputs(derivation))
        database = self.store.database
        # Held while building, so that two processes asked for the same thing build it once.
        with self.store.locked(f"build-{resolved.id.hex}", self._cancel):
            row = database.realisation(resolved.id)
            if row is not None and self._came.takes(derivation, row):
                database.map_derivation(derivation.id, derivation.name, resolved.id, derivation.encoded())
                return resolved.id, known_of(row).outputs, "reused"
            started = time.monotonic_ns()
            outputs = self.build(derivation, resolved)
            self._compare(derivation, resolved.id, row, outputs)
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
            database.set_worker(resolved.id, self._workers.pop(resolved.id, {}))
            self._came.built(resolved.id)
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
                failure = placed(error, derivation.name)
                if isinstance(failure, BuildFailed) and failure.hint is None and can_be_entered(derivation):
                    is_elsewhere = self._elsewhere(derivation) is not None
                    failure.hint = entering(derivation.name, kept=self.keep_failed, elsewhere=is_elsewhere)
                if not isinstance(failure, Interrupted):
                    log.write(lines_of(failure).encode("utf-8", "backslashreplace"))
                    failure.log = str(log_path)
                raise failure from error.__cause__

    def _elsewhere(self, derivation: Derivation) -> StepExecutor | None:
        """Return what runs a step's script or compiler, None where this machine's sandbox does."""
        place = self.places.get(derivation.id)
        return (None if place is None else place.executor) or self.executor

    def _call(
        self, derivation: Derivation, resolved: ResolvedDerivation, log: IO[bytes], *, from_nothing: bool
    ) -> Mapping[str, Output]:
        def write(data: bytes) -> None:
            log.write(data)
            log.flush()

        place = self.places.get(derivation.id)
        context = Context(
            name=derivation.name,
            labels=derivation.labels,
            store=self.store,
            fetch=self.fetch,
            sandbox=self.sandbox,
            log=lambda line: write(line.encode("utf-8", "backslashreplace") + b"\n"),
            log_bytes=write,
            jobs=self.inner_jobs if place is None or place.jobs is None else place.jobs,
            scratch=self.store.staging.new_path(),
            cancel=self._cancel if place is None else place.cancel,
            timeout_s=derivation.timeout_s,
            places=derivation.places,
            keep=self.store.failed_path(derivation.id) if self.keep_failed else None,
            compilers=self._compilers,
            from_nothing=from_nothing,
            executor=self._elsewhere(derivation),
            ran_by=lambda worker: self._workers.update({resolved.id: worker}),
        )
        return self.builders[resolved.builder](resolved, context)


def _compile_servers() -> CompileServers:
    from derive.build.compile_server import CompileServers  # not where nothing has to run

    return CompileServers()


def _translate(error: OSError, store: LocalStore) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return HostRefuses(
            f"no space left in the store {store.root}",
            detail=[f"free      {free_bytes(store) >> 20} MiB"],
            hint="free some space, or name a store on a larger disk with --store; everything finished is kept",
        )
    return error
