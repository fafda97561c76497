# SPDX-License-Identifier: Apache-2.0
"""Takes samples: of a command, or of a function in a process of its own; in rounds, so that noise meets all alike.

Edge: processes, the clock.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import Json
from derive.errors import DeriveError

_POLL_S = 0.02
_TAIL = 2000


class CannotMeasureError(DeriveError):
    """What was to be measured did not work; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run: wall time, CPU time of all its processes and threads, and the most memory that was resident."""

    wall_ns: int
    cpu_ns: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Samples:
    """Runs of one thing, in the order in which they were taken."""

    all: tuple[Sample, ...]

    @property
    def wall_ns(self) -> tuple[int, ...]:
        """Every wall time."""
        return tuple(sample.wall_ns for sample in self.all)

    @property
    def cores(self) -> float:
        """CPU time over wall time, the median of all runs."""
        return statistics.median(sample.cpu_ns / sample.wall_ns for sample in self.all)

    @property
    def peak_bytes(self) -> int:
        """The largest peak of all runs."""
        return max(sample.peak_bytes for sample in self.all)


def command(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    accept: Collection[int] = (0,),
) -> Sample:
    """Run a command to its end, its output thrown away. The peak is that of its largest process.

    Raises:
        CannotMeasureError: when it ends with no code that is accepted, with the end of what it wrote to standard error.
    """
    return _run(argv, env, cwd, watch=False, accept=accept)


def watched(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Sample:
    """Run a command to its end; the peak is that of its first process alone, whatever it starts.

    Raises:
        CannotMeasureError: as :func:`command`.
    """
    return _run(argv, env, cwd, watch=True)


def _run(
    argv: Sequence[str | Path],
    env: Mapping[str, str] | None,
    cwd: Path | None,
    *,
    watch: bool,
    accept: Collection[int] = (0,),
) -> Sample:
    with tempfile.TemporaryFile() as errors:
        started = time.monotonic_ns()
        process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
        peak = _watch(process.pid) if watch else 0
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic_ns() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in accept:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TAIL))
            text = errors.read().decode(errors="backslashreplace").strip()
            what = f"{' '.join(map(str, argv))}: exit code {process.returncode}"
            raise CannotMeasureError(what, detail=text.splitlines())
    return Sample(wall_ns=wall, cpu_ns=_cpu_ns(usage), peak_bytes=peak or usage.ru_maxrss << 10)


def _watch(pid: int) -> int:
    """Read a process's own peak until it ends. The kernel keeps the peak, so that only the last reading counts."""
    status = Path(f"/proc/{pid}/status")
    peak = 0
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                peak = max(peak, int(line.split()[1]) << 10)
        time.sleep(_POLL_S)
    return peak


def settled(case: Callable[[], Sample]) -> Sample:
    """Take a sample after the disk has taken in what was written before, so that no case waits for another's writes."""
    os.sync()
    return case()


def in_child(work: Callable[[], Json]) -> tuple[Sample, Json]:
    """Call a function in a forked process, where it finds every module imported and leaves nothing behind.

    Its time is that of the call alone.

    Raises:
        CannotMeasureError: when it raises; the traceback is printed.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        os.close(reader)
        _answer(writer, work)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if not text:
        raise CannotMeasureError("a measured function failed")
    found = json.loads(text)
    return Sample(**found["sample"]), found["answer"]


def _answer(writer: int, work: Callable[[], Json]) -> None:
    try:
        cpu = _own_cpu_ns()
        started = time.monotonic_ns()
        answer = work()
        wall = time.monotonic_ns() - started
        cpu = _own_cpu_ns() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        with os.fdopen(writer, "w") as out:
            json.dump({"sample": {"wall_ns": wall, "cpu_ns": cpu, "peak_bytes": peak}, "answer": answer}, out)
    except BaseException:  # noqa: BLE001 - the parent says that it failed
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


def interleaved(cases: Mapping[str, Callable[[], Sample]], rounds: int) -> dict[str, Samples]:
    """Take one sample of each case a round; each round begins with another case."""
    names = list(cases)
    found: dict[str, list[Sample]] = {name: [] for name in names}
    for turn in range(rounds):
        at = turn % len(names)
        for name in names[at:] + names[:at]:
            found[name].append(cases[name]())
    return {name: Samples(tuple(samples)) for name, samples in found.items()}


def _cpu_ns(usage: resource.struct_rusage) -> int:
    return round((usage.ru_utime + usage.ru_stime) * 1e9)


def _own_cpu_ns() -> int:
    return _cpu_ns(resource.getrusage(resource.RUSAGE_SELF)) + _cpu_ns(resource.getrusage(resource.RUSAGE_CHILDREN))
