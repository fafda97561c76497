# SPDX-License-Identifier: Apache-2.0
"""Real runs of a graph: the engine, its store and its scheduler, on workers that do nothing or on builders of BuildKit.

Edge: stores, threads, private Docker engines.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from derive.build.builders import VERSIONS
from derive.build.builders.script import build as script_builder
from derive.build.context import Build, Context, Ran, StepExecutor
from derive.build.context import Task as Asked
from derive.build.engine import engine_digest
from derive.build.execute import Executor, store_knowledge
from derive.build.fetching import StoreFetch
from derive.build.placing import Placing
from derive.build.plan import Plan, make_plan, resolved_of
from derive.build.prices import Forecast
from derive.buildkit.run import BuildKitExecutor
from derive.canonical import Json, escape
from derive.derivations.model import (
    BuiltInput,
    Derivation,
    FlatOutput,
    Output,
    Platform,
    ResolvedDerivation,
    TreeOutput,
)
from derive.sandbox.probe import find_sandbox
from derive.schedule.dispatch import Dispatch, Lane
from derive.schedule.model import HERE, NETWORK, Kind, Task, Worker
from derive.store.database import Realisation
from derive.store.history import runs, steps_of_run
from derive.store.local import LocalStore
from derive.trees.listing import DIRECTORY, Symlink
from derive.trees.pack import Member, NewFile, add_members
from speed.private_docker import ImageStore, default_binaries, started_engine

PLATFORM: Platform = "linux/amd64"
BUSYBOX = Path("/bin/busybox")
_RATE = 10**9
_OVERHEAD_NS = 500_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One real run: its wall time, the processor time of this process and of those it started, and bytes sent."""

    wall_ns: int
    cpu_ns: int
    children_ns: int
    sent_bytes: int
    steps: int


class Nobody:
    """A worker that does nothing: its steps are made by their builder at once."""

    def run(self, task: Asked, context: Context) -> AbstractContextManager[Ran]:
        """Never asked."""
        raise NotImplementedError


def derivations(tasks: Sequence[Task], pace: float, store: LocalStore) -> Derivation:
    """Make derivations of tasks, whose scripts last ``pace`` of what was recorded, and what needs all of them."""
    root = _root(store)
    made: list[Derivation] = []
    for place, task in enumerate(tasks):
        seconds = f"{task.duration_ns / 1e9 * pace:.3f}"
        arguments: dict[str, Json] = {
            "script": escape(f"sleep {seconds}\nmkdir -p $DERIVE_OUT\necho {place} > $DERIVE_OUT/{place}\n".encode()),
            "files": {},
            "environment": {},
            "allow": [],
        }
        inputs = {"root": BuiltInput(root), **{f"in.x{need}": BuiltInput(made[need]) for need in task.needs}}
        made.append(_derivation(task.key, "script", arguments, inputs, PLATFORM))
    return _derivation("all", "compose", {}, {f"{place}": BuiltInput(one) for place, one in enumerate(made)})


def _derivation(
    name: str, builder: str, arguments: Mapping[str, Json], inputs: Mapping[str, BuiltInput], build: Platform = "any"
) -> Derivation:
    return Derivation(
        name=name,
        builder=builder,
        version=VERSIONS[builder],
        build=build,
        host="any",
        arguments=arguments,
        inputs=inputs,
    )


def _root(store: LocalStore) -> Derivation:
    """Add a root of busybox to a store as if it had been built, and return what built it."""
    names = (b"sh", b"sleep", b"mkdir", b"echo", b"cat")
    members: list[tuple[bytes, Member]] = [
        (b"usr/bin/busybox", NewFile(executable=True, chunks=[BUSYBOX.read_bytes()])),
        *((b"usr/bin/" + name, Symlink(b"busybox")) for name in names),
        (b"bin", Symlink(b"usr/bin")),
        *((name, DIRECTORY) for name in (b"build", b"dev", b"home", b"proc", b"tmp")),
    ]
    output = TreeOutput(store.add_listing(add_members(store, members)))
    root = _derivation("root", "compose", {"busybox": True}, {})
    entry = Realisation(
        resolved=resolved_of(root, {}).id,
        outputs={"out": str(output)},
        builder="compose",
        engine=engine_digest().hex,
        host="x86_64",
        duration_ns=1,
        log="",
        built_s=0,
    )
    store.database.add_realisation(entry, root.id, root.name, root.encoded())
    return root


def _nothing(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    with context.store.blob_writer() as writer:
        writer.write(request.id.hex.encode())
        return {"out": FlatOutput(writer.commit())}


def run(
    tasks: Sequence[Task], store: LocalStore, executors: Sequence[StepExecutor], *, slots: int, pace: float
) -> Measured:
    """Run a graph on executors, each with so many slots; those that are nobody make their steps at once."""
    target = derivations(tasks, pace, store)
    is_real = not any(isinstance(one, Nobody) for one in executors)
    builders: dict[str, Build] = {"script": script_builder if is_real else _nothing, "compose": _nothing}

    def placer(_: Plan, __: Forecast) -> Placing:
        size = BUSYBOX.stat().st_size
        scaled = [
            replace(
                one, duration_ns=int(one.duration_ns * pace), reads=(("root", size), *one.reads[1:]), gives_bytes=100
            )
            for one in tasks
        ]
        return Dispatch(_renamed(scaled, target), _lanes(executors, slots), lambda _: None)

    executor = Executor(
        store=store,
        builders=builders,
        fetch=StoreFetch(offline=True),
        sandbox=find_sandbox,
        jobs=1,
        inner_jobs=1,
        placer=placer,
    )
    plan = make_plan(target, store_knowledge(store))
    before, started = os.times(), time.monotonic_ns()
    executor.run(plan)
    wall, after = time.monotonic_ns() - started, os.times()
    return Measured(
        wall_ns=wall,
        cpu_ns=int(1e9 * (after.user + after.system - before.user - before.system)),
        children_ns=int(
            1e9 * (after.children_user + after.children_system - before.children_user - before.children_system)
        ),
        sent_bytes=_sent(store, target),
        steps=len(tasks),
    )


def _renamed(tasks: Sequence[Task], target: Derivation) -> list[Task]:
    """Give tasks the ids of their derivations for keys, as the engine asks for them by these."""
    keys = {role: reference.derivation.id.hex for role, reference in target.inputs.items()}
    found = [replace(one, key=keys[str(place)]) for place, one in enumerate(tasks)]
    last = Task(key=target.id.hex, name="all", kind=Kind.ENGINE, duration_ns=1, needs=tuple(range(len(tasks))))
    return [*found, last]


def _lanes(executors: Sequence[StepExecutor], slots: int) -> list[Lane]:
    lanes = [
        Lane(worker=Worker(name=NETWORK, kinds=frozenset({Kind.FETCH}), slots=1)),
        Lane(worker=Worker(name=HERE, kinds=frozenset({Kind.ENGINE}), slots=1)),
    ]
    for number, executor in enumerate(executors):
        worker = Worker(
            name=f"w{number}", kinds=frozenset({Kind.SANDBOX}), slots=slots, rate=_RATE, overhead_ns=_OVERHEAD_NS
        )
        lanes.append(Lane(worker=worker, open=_giving(executor)))
    return lanes


def _giving(executor: StepExecutor) -> Callable[[], StepExecutor]:
    return lambda: executor


def _sent(store: LocalStore, target: Derivation) -> int:
    (last, *_) = runs(store.database, target.name, target.host)
    facts = (store.database.worker(step.resolved) for step in steps_of_run(store.database, last.run))
    return sum(int(one.get("sent_bytes", 0)) for one in facts if one)


@contextlib.contextmanager
def builders(count: int, folder: Path) -> Iterator[list[BuildKitExecutor]]:
    """Start private engines, and return what runs steps on each: this process's Docker client knows them meanwhile."""
    binaries = default_binaries().absolute()
    (folder / "cli-plugins").mkdir(parents=True)
    (folder / "cli-plugins" / "docker-buildx").symlink_to((binaries / "bin" / "docker-buildx").resolve())
    kept = dict(os.environ)
    os.environ["PATH"] = f"{binaries / 'bin'}:{os.environ['PATH']}"
    os.environ["DOCKER_CONFIG"] = str(folder)
    try:
        with contextlib.ExitStack() as stack:
            for number in range(count):
                engine = stack.enter_context(started_engine(store=ImageStore.CONTAINERD, binaries=binaries))
                engine.wait(_answers)
                words = ["docker", "context", "create", f"w{number}", "--docker", f"host={engine.url}"]
                subprocess.run(words, check=True, capture_output=True)
            yield [BuildKitExecutor(builders=(f"w{number}",), tries=1) for number in range(count)]
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _answers(url: str) -> bool:
    return subprocess.run(["docker", "-H", url, "version"], check=False, capture_output=True).returncode == 0
