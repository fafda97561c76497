# SPDX-License-Identifier: Apache-2.0
"""Containers that take memory until the machine has less than a floor, and how long a guard takes to end them.

Edge: a container engine, processes, control groups, a gigabyte or two of this machine's memory; needs root.

Measured is from when less than the floor is available, as seen here every 5 ms, until no process of the container is
left. Meanwhile others read a file through a control group too small for it, so that tasks wait for memory: that is
pressure as the kernel counts it, and takes no memory from anybody. As a program, it does all rounds and prints them:

    .venv/bin/python tests/support/starving.py [STORE]
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the folders that pytest has, instead of this one, whose names are those of other modules
    sys.path[:1] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "bench/engine")]

from docker.models.containers import Container

from speed.private_docker import CGROUPS
from support.busybox import busybox_image
from support.cgroups import wait_until
from support.docker_engine import DockerEngine, ImageStore, default_binaries, docker_engine

GIB = 1 << 30
TAKES = 2040
"""MiB that a container takes at most; it crosses the floor when it has taken ``MARGIN_BYTES``."""
MARGIN_BYTES = 1000 << 20
LEAST_BYTES = 6 * GIB
"""What must be available before: less, and others on this machine would be in danger."""
LOOK_S = 0.005
LIMIT_S = 10.0
VOID = 60
"""Rounds that may be void: others on this machine gave back so much meanwhile that the floor was not crossed."""
CHURNED_BYTES = 96 << 20
CHURN_LIMIT = 48 << 20
IMAGE = "starved"

# The buffer is filled by one read, and held, as nobody reads what is written.
_WAIT = "until [ -e /go/go ]; do /busybox sleep 0.05; done"
_EAT = f"{_WAIT}; /busybox dd if=/dev/zero bs={TAKES}M count=1 | /busybox sleep 1000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One container's end: its exit code and the guard's, and how long it took from the crossing.

    ``decided_s`` is until the guard's look that saw it, by the guard's own record; ``took_s`` until all were gone.
    """

    decided_s: float
    took_s: float
    container: int
    guard: int
    waited_s: float
    """For how long, from the start of taking on, some task of this machine waited for memory."""


class VoidRoundError(Exception):
    """The floor was not crossed for as long as it takes."""


def available() -> int:
    """Return MemAvailable in bytes."""
    with open("/proc/meminfo", "rb", buffering=0) as file:  # noqa: PTH123 - read 200 times a second
        return int(file.read(256).split(b"MemAvailable:")[1].split()[0]) << 10


def rounds(
    engine: DockerEngine, guard: Path, folder: Path, *, interval: str, count: int, say: Callable[[str], object] = str
) -> Iterator[Round]:
    """Yield one round after another, of a guard that looks every ``interval`` seconds."""
    number, void = 0, 0
    while number < count:
        wait_until(lambda: available() > LEAST_BYTES, seconds=120)
        place = folder / f"{interval}-{number}-{void}"
        place.mkdir()
        try:
            with _container(engine, place) as container:
                found = _round(engine, guard, container, place, interval)
        except VoidRoundError as reason:
            say(f"{interval} s, a void round: {reason}")
            void += 1
            if void > VOID:
                raise
            continue
        number += 1
        took = f"decided {found.decided_s:.3f} s, gone {found.took_s:.3f} s, waited for memory {found.waited_s:.2f} s"
        say(f"{interval} s, round {number} of {count}: {took}")
        yield found


def _round(engine: DockerEngine, guard: Path, container: Container, place: Path, interval: str) -> Round:
    group = _mounted() / engine.folder.name / str(container.id)
    floor = available() - MARGIN_BYTES
    words = ("--container", IMAGE, "--phase", "startup", "--cgroup", str(group), "--floor", str(floor))
    more = ("--interval", interval, "--wait", "60", "--ready-file", str(place / "ready"), "--evidence", str(place))
    with subprocess.Popen([guard, *words, *more], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until((place / "ready").exists)
            container.start()
            _favour(engine)
            wait_until(lambda: (place / "ready").read_text() == "guarding\n")
            before = _waited_us()
            (place / "go").touch()
            with _first():
                looks, gone = _watch(floor, group)
            waited = (_waited_us() - before) / 1e6
            code = process.wait(timeout=30)
        finally:
            process.kill()
    ended = int(container.wait(timeout=30)["StatusCode"])
    (record,) = place.glob("*.json")
    decided = json.loads(record.read_bytes())["body"]["monotonic_ns"] / 1e9
    crossed = crossing(looks, decided)
    return Round(decided_s=decided - crossed, took_s=gone - crossed, container=ended, guard=code, waited_s=waited)


def _watch(floor: int, group: Path) -> tuple[list[tuple[float, bool]], float]:
    """Return, by the monotonic clock, what was seen of the floor until the group had no process, and when that was."""
    looks = [(time.monotonic(), False)]
    until = looks[0][0] + LIMIT_S
    while looks[-1][0] < until:
        looks.append((time.monotonic(), available() < floor))
        if not _processes(group):
            return looks, looks[-1][0]
        time.sleep(LOOK_S)
    raise VoidRoundError(
        f"{available() - floor} bytes above the floor; below it at {sum(low for _, low in looks)} looks"
    )


def crossing(looks: list[tuple[float, bool]], decided: float) -> float:
    """Return since when less than the floor was available, without an end of it until the guard's look that saw it."""
    before = [(at, below) for at, below in looks if at <= decided]
    since = decided
    for at, below in reversed(before):
        if not below:
            break
        since = at
    return since


def _favour(engine: DockerEngine) -> None:
    """Give the engine's containers the processors before others, if this machine has a group for it.

    A killed process gives its memory back when its turn comes: beside a busy test suite that would be measured.
    """
    with contextlib.suppress(OSError):
        (CGROUPS / "cpu" / engine.folder.name / "cpu.shares").write_text("262144")


@contextlib.contextmanager
def _first() -> Iterator[None]:
    """Run before others meanwhile, so that what is measured is not this program's own turn."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _processes(group: Path) -> bool:
    try:
        return bool((group / "cgroup.procs").read_bytes())
    except OSError:
        return False


def _waited_us() -> int:
    some = Path("/proc/pressure/memory").read_text().splitlines()[0]
    return int(some.rpartition("total=")[2])


def _mounted() -> Path:
    """Return the hierarchy of version 2 where there is one, as on the machines that are guarded."""
    unified = [place for place in (CGROUPS, CGROUPS / "unified") if (place / "cgroup.controllers").exists()]
    return unified[0] if unified else CGROUPS / "freezer"


@contextlib.contextmanager
def _container(engine: DockerEngine, go: Path) -> Iterator[Container]:
    made = engine.client.containers.create(
        f"{IMAGE}:latest", ["/busybox", "sh", "-c", _EAT], network_mode="none", volumes=[f"{go}:/go:ro"]
    )
    try:
        yield made
    finally:
        made.remove(force=True)


@contextlib.contextmanager
def churning(folder: Path, readers: int = 2) -> Iterator[bool]:
    """Have programs wait for memory meanwhile; False where this machine limits no group's memory."""
    group = CGROUPS / "memory" / f"derive-churn-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        yield False
        return
    (group / "memory.limit_in_bytes").write_text(str(CHURN_LIMIT))
    file = folder / "churned"
    with file.open("wb") as stream:
        for _ in range(CHURNED_BYTES >> 20):
            stream.write(bytes(1 << 20))
        os.fsync(stream.fileno())
        # What is cached already is counted where it was written.
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    script = 'echo $$ >"$0/cgroup.procs"; while kill -0 $PPID; do cat "$1" >/dev/null; done 2>/dev/null'
    started = [
        subprocess.Popen(["sh", "-c", script, str(group), str(file)], start_new_session=True) for _ in range(readers)
    ]
    try:
        yield True
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
        wait_until(lambda: not _processes(group))
        group.rmdir()
        file.unlink()


@contextlib.contextmanager
def starving_engine() -> Iterator[DockerEngine]:
    """Run an engine that has the image."""
    with docker_engine(store=ImageStore.OVERLAY2, binaries=default_binaries()) as running:
        busybox_image(running, IMAGE)
        yield running


def spread(found: list[Round]) -> dict[str, Any]:
    """Return how long the rounds took, in milliseconds: median, 99th percentile (of 50 the longest), longest."""
    took, decided = (sorted(times) for times in ([one.took_s for one in found], [one.decided_s for one in found]))
    last = -(-99 * len(took) // 100) - 1
    times = {
        "p50": statistics.median(took),
        "p99": took[last],
        "max": took[-1],
        "decided_p50": statistics.median(decided),
        "decided_p99": decided[last],
        "waited_for_memory": sum(one.waited_s for one in found),
    }
    return {"rounds": len(took), **{f"{name}_ms": round(value * 1000) for name, value in times.items()}}


LIMITS_MS = {"0.25": 1000, "2": 4000}
"""By the guard's interval: what the 99th percentile may be."""


def measure(guard: Path, folder: Path, *, count: int = 50, say: Callable[[str], object] = str) -> dict[str, Any]:
    """Do ``count`` rounds for each interval, and return what :func:`spread` says of each, and whether all is well."""
    answer: dict[str, Any] = {}
    with starving_engine() as engine, churning(folder) as under_pressure:
        for interval, limit in LIMITS_MS.items():
            found = list(rounds(engine, guard, folder, interval=interval, count=count, say=say))
            good = all((one.container, one.guard) == (137, 3) for one in found)
            seen = spread(found)
            answer[interval] = {**seen, "limit_ms": limit, "good": good and seen["p99_ms"] <= limit}
    return {"intervals": answer, "under_pressure": under_pressure, "good": all(one["good"] for one in answer.values())}


if __name__ == "__main__":
    import tempfile

    from support.memguard import built

    def main() -> None:
        """Write a line for each round to standard error, and what came of all to standard output."""
        store = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ["DERIVE_STORE"])
        with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="derive-starving-") as folder:
            found = measure(built(store), Path(folder), say=lambda line: sys.stderr.write(f"{line}\n"))
        sys.stdout.write(json.dumps(found, indent=2) + "\n")

    main()
