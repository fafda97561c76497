# SPDX-License-Identifier: Apache-2.0
"""How long does each kernel take, beside its peers and the card's own floor, all in one run?

Edge: the GPU's clock. One launch's time is that of a replayed CUDA graph over its number of launches; they go over
copies of weights, inputs and outputs that are together larger than the L2 cache. Each figure is a median of replays,
and is taken twice, with everything else in between.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import torch  # type: ignore[import-not-found]

from . import buffers, ptx
from .setting import Served, Setting, say, watching_units

_LEAST_LAUNCHES = 24
_REPLAY_SECONDS = 0.12
_ROUNDS = 2
_READ_BYTES = 4 << 30
_COPY_BYTES = 2 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Times of one launch in nanoseconds: the median, the first and last decile of replays, and each round's median."""

    time_ns: int
    low_ns: int
    high_ns: int
    rounds_ns: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        """Return the times as they stand in the report."""
        return {
            "time_ns": self.time_ns,
            "low_ns": self.low_ns,
            "high_ns": self.high_ns,
            "rounds_ns": list(self.rounds_ns),
        }


def run(setting: Setting) -> dict[str, Any]:
    """Time every case that asks for it, then say which targets were missed."""
    device = torch.device("cuda")
    driver = ptx.Driver() if torch.zeros(1, device=device).numel() else None
    assert driver is not None
    _warm(device)
    empty = _times([_launch(driver, ptx.EMPTY, 1, 32, ())] * 200)
    rate, copy_rate = _reading_rate(driver, device), _copy_rate(device)
    say(
        f"time: an empty kernel {empty.time_ns} ns, reading {rate / 1e12:.3f} TB/s, copying {copy_rate / 1e12:.3f} TB/s"
    )
    found = []
    with watching_units() as served:
        for kernel, case in setting.cases():
            if case.timings:
                found += _case(setting, served, kernel, case, empty.time_ns, rate)
                torch.cuda.empty_cache()
    _warm(device)
    again = _reading_rate(driver, device)
    return {
        "empty_launch_ns": empty.time_ns,
        "read_bytes_per_s": rate,
        "read_again_bytes_per_s": again,
        "copy_bytes_per_s": copy_rate,
        "cases": found,
        "ok": all(one["met"] is not False and not one["problems"] for one in found),
    }


def writable_cache(setting: Setting) -> str:
    """Copy the cache to where TileLang may add to it: peers that are TileLang kernels are compiled here."""
    target = setting.work / "timing-cache"
    if not target.exists():
        shutil.copytree(setting.cache, target)
        for path in (target, *target.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)
    return str(target)


def _case(setting: Setting, served: Served, kernel: str, case: Any, empty_ns: int, rate: int) -> list[dict[str, Any]]:
    device = torch.device("cuda")
    state = case.state(device, setting.generator(device, kernel, case.name, "state"))
    found = []
    for timing in case.timings:
        generator = setting.generator(device, kernel, case.name, "time", timing.rows)
        inputs = case.inputs(state, timing.rows, "random", generator)
        moved = int(case.moved_bytes(state, timing.rows))
        one: dict[str, Any] = {
            "kernel": kernel,
            "case": case.name,
            "rows": timing.rows,
            "moved_bytes": moved,
            "floor_ns": round(moved / rate * 1e9) + empty_ns,
            "target_ns": None if timing.target_us is None else round(timing.target_us * 1000),
            **_measured(case, state, inputs, timing.rows, served),
        }
        target, took = one["target_ns"], one.get("time_ns")
        one["met"] = None if target is None else took is not None and took <= target
        say(f"time: {kernel} {case.name} {timing.rows} rows: {_words(one)}")
        found.append(one)
        torch.cuda.empty_cache()
    return found


def _words(one: Mapping[str, Any]) -> str:
    peers = ", ".join(f"{peer['name']} {peer.get('time_ns', peer.get('unavailable'))}" for peer in one["peers"])
    missed = ", MISSED" if one["met"] is False else ""
    took = f"{one.get('time_ns')} ns, floor {one['floor_ns']}, target {one['target_ns']}{missed}"
    return "; ".join([took, *([peers] if peers else []), *one["problems"]])


def _measured(case: Any, state: Any, inputs: Any, rows: int, served: Served) -> dict[str, Any]:
    """Time the kernel and its peers, in turn, round after round."""
    served.take()
    problems: list[str] = []
    peers: list[dict[str, Any]] = []
    series: list[tuple[dict[str, Any], Replay]] = []
    result: dict[str, Any] = {"peers": peers, "problems": problems}
    try:
        outputs = case.outputs(state, rows)
        launches = _rotated(case.run, buffers.own(state), buffers.rest(state), inputs, outputs)
        series.append((result, Replay(launches)))
    except Exception as error:  # noqa: BLE001 - the other timings go on
        problems.append(f"{type(error).__name__}: {error}")
    result["units"] = served.take()
    for peer in case.peers:
        entry: dict[str, Any] = {"name": peer.name}
        peers.append(entry)
        try:
            absent = peer.unavailable()
            if absent is None:
                launches = _rotated(peer.run, peer.state(state), {}, inputs, peer.outputs(state, rows))
                series.append((entry, Replay(launches)))
            else:
                entry["unavailable"] = absent
        except Exception as error:  # noqa: BLE001 - a peer that fails is none
            entry["unavailable"] = f"{type(error).__name__}: {error}"
    rounds = [[replay.times() for _, replay in series] for _ in range(_ROUNDS)]
    for index, (entry, replay) in enumerate(series):
        spread = _spread([one[index] for one in rounds])
        entry.update(spread.document(), copies=replay.copies, launches=replay.launches)
    return result


def _rotated(
    run_one: Callable[[Any, Any, Any], None], state: Any, others: Any, inputs: Any, outputs: Mapping[str, Any]
) -> list[buffers.Launch]:
    """Return launches, each over the next copy of everything that it touches."""
    device = next(iter(inputs.values())).device
    written = buffers.blank(outputs, device)
    each = buffers.size_of(state) + buffers.size_of(inputs) + buffers.size_of(written)
    count = buffers.copies_for(each, torch.cuda.get_device_properties(device).L2_cache_size)
    sets = zip(*(buffers.copied(tensors, count) for tensors in (state, inputs, written)), strict=True)
    return [_bound(run_one, {**others, **one}, two, three) for one, two, three in sets]


def _bound(run_one: Callable[[Any, Any, Any], None], state: Any, inputs: Any, outputs: Any) -> buffers.Launch:
    return lambda: run_one(state, inputs, outputs)


class Replay:
    """A graph of launches, captured once; ``launches`` are its kernels' calls, over ``copies`` sets of buffers."""

    def __init__(self, once: Sequence[buffers.Launch]) -> None:
        self.copies = len(once)
        self._once = tuple(once)  # a graph knows addresses: whoever owns the buffers has to live as long
        repeats = -(-_LEAST_LAUNCHES // len(once))
        wanted = [*once] * repeats
        self.launches = len(wanted)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for launch in once[:3]:
                launch()
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream):
            for launch in wanted:
                launch()
        torch.cuda.synchronize()

    def times(self) -> list[float]:
        """Return the time of one launch, in nanoseconds, of each replay."""
        for _ in range(2):
            self._graph.replay()
        first = self._one()
        count = max(9, min(200, int(_REPLAY_SECONDS * 1e9 / (first * self.launches + 1))))
        return [self._one() for _ in range(count)]

    def _one(self) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        self._graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e6 / self.launches


def _spread(rounds: Sequence[Sequence[float]]) -> Spread:
    every = [one for times in rounds for one in times]
    deciles = quantiles(every, n=10)
    return Spread(
        time_ns=round(median(every)),
        low_ns=round(deciles[0]),
        high_ns=round(deciles[-1]),
        rounds_ns=tuple(round(median(times)) for times in rounds),
    )


def _times(launches: Sequence[buffers.Launch]) -> Spread:
    replay = Replay(launches)
    return _spread([replay.times() for _ in range(_ROUNDS)])


def _launch(driver: ptx.Driver, name: str, grid: int, block: int, arguments: Sequence[int]) -> buffers.Launch:
    def launch() -> None:
        stream = torch.cuda.current_stream().cuda_stream
        driver.launch(name, grid=grid, block=block, stream=stream, arguments=arguments)

    return launch


def _reading_rate(driver: ptx.Driver, device: Any) -> int:
    """Return the bytes per second that the best of a few grids reads, from buffers far larger than the cache."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    memory = torch.empty(_READ_BYTES, dtype=torch.uint8, device=device)
    memory.view(torch.int64).random_()
    into = torch.zeros(1, dtype=torch.int32, device=device)
    best = 0
    for blocks in (2, 4, 16):
        grid = processors * blocks
        piece = grid * ptx.READ_THREADS * 16 * ptx.READ_UNROLL
        size = (_READ_BYTES // 4) // piece * piece
        launches = [
            _launch(driver, ptx.READ, grid, ptx.READ_THREADS, (memory.data_ptr() + i * size, size, into.data_ptr()))
            for i in range(4)
        ]
        best = max(best, round(size / _times(launches).time_ns * 1e9))
    return best


def _copy_rate(device: Any) -> int:
    """Return bytes read plus bytes written per second of a device-to-device copy."""
    source = torch.empty(_COPY_BYTES, dtype=torch.uint8, device=device)
    source.view(torch.int64).random_()
    target = torch.empty_like(source)
    return round(2 * _COPY_BYTES / _times([lambda: target.copy_(source)]).time_ns * 1e9)


def _warm(device: Any) -> None:
    """Work for a moment, so that the clocks are those of work."""
    square = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    for _ in range(150):
        square @ square
    torch.cuda.synchronize()
