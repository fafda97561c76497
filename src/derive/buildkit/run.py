# SPDX-License-Identifier: Apache-2.0
"""Runs steps on builders: one build a step, tried again elsewhere when a worker is lost, and never a wrong output.

Edge: threads, the clock, scratch folders; the clients of BuildKit.

An output is taken from a build alone that ended well, after every digest in it has been checked. What ends otherwise is
the script's own failure where its exit status is known; and where it is not, the worker is held to be lost.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from derive.buildkit import request as steps
from derive.buildkit.builders import Builder, usable_builder
from derive.buildkit.client import Build, BuildRequest
from derive.buildkit.contexts import Contexts
from derive.buildkit.events import Told
from derive.buildkit.loglines import LogLines
from derive.buildkit.output import SentOutput, checked_layer
from derive.buildkit.refusals import refusal_of, sockets_left
from derive.buildkit.scratch import scratch_folder
from derive.buildkit.watch import Patience, Silent, Watch
from derive.errors import Corrupt, HostRefuses, InputErrors, Unavailable
from derive.sandbox.outcome import Cancelled, Exited
from derive.trees.listing import Listing
from derive.trees.pack import NewFile, add_members

if TYPE_CHECKING:
    from derive.build.context import Context, Ran, Task
    from derive.sandbox.outcome import Outcome

_TRIES = 3
_PAUSE_S = 1.0
_RUNTIME = b"runc run failed: "
"""How the last line of a step begins that its worker could not start."""


class _LostError(Exception):
    """The worker did not bring the step to an end; the message says why."""


@dataclass(slots=True, kw_only=True)
class BuildKitExecutor:
    """Runs steps on any of several builders, on the one that has the fewest; safe for use by many threads.

    ``builders`` are names as buildx has them, ``""`` for the current one. A step is begun at most ``tries`` times.
    ``note`` takes what a person should know, such as a worker that was lost.
    """

    builders: tuple[str, ...] = ("",)
    tries: int = _TRIES
    patience: Patience = field(default_factory=Patience)
    note: Callable[[str], None] = lambda _: None
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[tuple[str, str], Builder] = field(default_factory=dict)
    _running: dict[str, int] = field(default_factory=dict)

    @contextlib.contextmanager
    def run(self, task: Task, context: Context) -> Iterator[Ran]:
        """Run a task; see :class:`derive.build.context.StepExecutor`."""
        with scratch_folder(Path(context.scratch).parent, "buildkit-") as top:
            yield self._tried(_prepared(task, context, top / "contexts"), context, top)

    def _tried(self, prepared: _Prepared, context: Context, top: Path) -> Ran:
        name = prepared.step.name
        lost: list[str] = []
        last: Exception | None = None
        told = ""
        for number in range(self.tries):
            try:
                with self._builder(prepared.platform, lost) as builder:
                    try:
                        return _Attempt(prepared, builder, context, top / f"try-{number}", self.patience).run()
                    except (_LostError, Corrupt) as error:
                        lost.append(builder.name)
                        self._forget(builder)
                        last = error
            except (HostRefuses, InputErrors):
                raise
            except Unavailable as error:
                last = error
            told = getattr(last, "message", str(last))
            context.log(f"lost: {told}")
            if number + 1 < self.tries:
                self.note(f"{name}: {told}; it begins again")
                if context.cancel.wait(_PAUSE_S):
                    return prepared.ran(Cancelled())
        where = ", ".join(dict.fromkeys(lost)) or ", ".join(filter(None, self.builders)) or "the current builder"
        raise Unavailable(
            f"no builder brought {name} to an end",
            detail=(f"tried     {self.tries} times: {where}", *getattr(last, "detail", ()), f"last      {told}"),
            hint="docker buildx ls says which builders answer; without --executor this machine runs it",
        ) from last

    @contextlib.contextmanager
    def _builder(self, platform: str, lost: list[str]) -> Iterator[Builder]:
        """Lend the builder that has the fewest steps, one that lost this step only where all have."""
        with self._guard:
            order = {name: (lost.count(name), self._running.get(name, 0)) for name in self.builders}
            name = min(order, key=lambda one: order[one])
            self._running[name] = self._running.get(name, 0) + 1
        try:
            found = self._known.get((name, platform))
            if found is None:
                try:
                    found = self._known[name, platform] = usable_builder(name, platform)
                except Unavailable as error:
                    lost.append(name)
                    if isinstance(error, HostRefuses) and set(self.builders) > set(lost):
                        raise Unavailable(error.message, detail=error.detail, hint=error.hint) from error
                    raise
            yield found
        finally:
            with self._guard:
                self._running[name] -= 1

    def _forget(self, builder: Builder) -> None:
        for key in [key for key, known in self._known.items() if known is builder]:
            self._known.pop(key, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A step with its contexts, for any number of attempts."""

    step: steps.Step
    platform: str
    contexts: Mapping[str, str]

    def ran(self, outcome: Outcome, output: SentOutput | None = None, worker: Mapping[str, str] | None = None) -> Ran:
        from derive.build.context import Ran

        return Ran(outcome=outcome, output=output, worker=worker or {})


def _prepared(task: Task, context: Context, folder: Path) -> _Prepared:
    store = context.store
    step = steps.step_of(task.name, store.listing(task.root), task.command, task.sources, task.environment, task.jobs)
    contexts = Contexts(store, folder)
    layers = {
        steps.input_context(at): contexts.layer(task.sources[name], below=steps.TREE, cancel=context.cancel)
        for at, name in enumerate(step.inputs)
    }
    layers[steps.EXTRA] = contexts.layer(_extra(context, step))
    root = [contexts.layer(task.root, cancel=context.cancel), contexts.folders(steps.SCAFFOLD)]
    images = {name: contexts.image([layer], task.platform, {}) for name, layer in layers.items()}
    images[steps.ROOT] = contexts.image(root, task.platform, steps.settings(step))
    return _Prepared(
        step=step, platform=task.platform, contexts={name: contexts.place(one) for name, one in images.items()}
    )


def _extra(context: Context, step: steps.Step) -> Listing:
    files = {steps.EMPTY_FILE: b"", **({} if step.script is None else {steps.SCRIPT_FILE: step.script.encode()})}
    return add_members(
        context.store, [(path, NewFile(executable=False, chunks=[data])) for path, data in files.items()]
    )


class _Attempt:
    """One build of a step by one builder."""

    def __init__(
        self, prepared: _Prepared, builder: Builder, context: Context, folder: Path, patience: Patience
    ) -> None:
        self._prepared = prepared
        self._builder = builder
        self._told = Told()
        self._lines = LogLines(context.log_bytes)
        if prepared.step.starts:
            self._lines.beginning, self._lines.marked = steps.BEGINNING, steps.SOCKET
        folder.mkdir()
        self._result = folder / "result"
        self._build = Build(
            request=BuildRequest(
                address=builder.address,
                dockerfile=steps.dockerfile(prepared.step),
                contexts=prepared.contexts,
                platform=prepared.platform,
                build_arguments=prepared.step.build_arguments,
                folder=folder / "build",
                # What ran once runs again: whether it has to is for the store to say, and a check means it.
                uses_cache=False,
                output={"type": "oci", "compression": "uncompressed"},
                result=self._result,
            )
        )
        self._watch = Watch(
            build=self._build,
            builder=builder,
            patience=patience,
            cancel=context.cancel,
            timeout_s=context.timeout_s,
        )

    def run(self) -> Ran:
        """Run it; raises _LostError when the worker did not bring it to an end, and why it never began."""
        started = time.monotonic_ns()
        step = self._prepared.step
        lines = self._lines
        began = 0
        try:
            with contextlib.closing(self._watch.lines()) as told:
                for line in told:
                    for data in self._told.take(line):
                        lines.take(data)
                    if self._told.began and not began:
                        began = time.monotonic_ns()
                        self._watch.begin()
        finally:
            lines.end()
        worker = {
            **self._builder.facts(self._prepared.platform),
            "sent_bytes": str(self._told.sent_bytes),
            "queued_ns": str((began or time.monotonic_ns()) - started),
            **({"kernel": lines.first} if lines.first else {}),
        }
        outcome = self._outcome()
        if outcome != Exited(0):
            return self._prepared.ran(outcome, worker=worker)
        layer = checked_layer(self._result, f"the output of {step.name}")
        return self._prepared.ran(outcome, SentOutput(layer, step.name), worker)

    def _outcome(self) -> Outcome:
        stopped = self._watch.stopped
        if isinstance(stopped, Silent):
            raise _LostError(str(stopped))
        if stopped is not None:
            return stopped
        if self._build.status == 0:
            return Exited(0)
        status = self._told.exit_status
        has_begun = not self._lines.last.startswith(_RUNTIME) if self._lines.first is None else True
        if status and self._lines.marks:
            raise sockets_left(self._prepared.step.name, self._lines.marks)
        if status and has_begun:
            return Exited(status)
        why = self._told.error if has_begun else self._lines.last.decode("utf-8", "replace")
        refusal = refusal_of(why, self._told.words, self._builder.name)
        if refusal is not None:
            raise refusal
        said = why or next((line for line in reversed(self._told.words) if "ERROR" in line), "its client was killed")
        raise _LostError(f"builder {self._builder.name} gave it up: {said.removeprefix('ERROR: ')[:300]}")
