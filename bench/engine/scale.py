# SPDX-License-Identifier: Apache-2.0
"""Measures how building grows with its workers: simulated ones, this engine alone, and builders of BuildKit.

Edge: arguments, standard streams, stores, private Docker engines. No figure makes it fail. See docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from derive.canonical import Json
from derive.cli.console import answer, guarded, note
from derive.records.model import record
from derive.schedule.assign import bounds, least_moved
from derive.schedule.model import Kind, Task, Worker
from derive.schedule.simulate import Outage, World, pull_directly, pull_through_mirror, simulate
from derive.store.local import LocalStore
from derive.trees.materialise import remove_folder
from derive.words import duration_text, size_text
from speed import pulls
from speed.machine import facts_of, load
from speed.placed import Nobody, builders, run
from speed.private_docker import default_binaries, why_unavailable
from speed.recorded import graph

SIMULATED = (1, 2, 4, 10, 50)
BUILDERS = (1, 2, 4)
RATE, LINE = 125_000_000, 1_250_000_000
"""Bytes a second to each worker and of this machine's line: 1 and 10 Gbit/s."""
OVERHEAD_NS = 500_000_000
NODES, LAYER = 32, 1_000_000_000
_PULLED = 64 << 20
_SLOTS = 4
_PACE = 0.02


def main(argv: Sequence[str]) -> int:
    """Measure, print, and write the record."""
    args = _parser().parse_args(argv)
    return guarded(lambda: _measure(args))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--derivations", type=int, default=1000, help="of the simulated graph (default: 1000)")
    parser.add_argument("--steps", type=int, default=1000, help="of the graph on BuildKit (default: 1000; 0: none)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="also write the record")
    parser.add_argument("--scratch", type=Path, default=Path("/var/tmp"), help="where stores are made")
    return parser


def _measure(args: argparse.Namespace) -> int:
    before = load()
    tasks = graph(args.derivations)
    body: dict[str, Json] = {"machine": dict(facts_of(args.scratch)), "derivations": len(tasks)}
    body["simulated"] = [_simulated(tasks, count) for count in SIMULATED]
    body["simulated_with_losses"] = _simulated(tasks, SIMULATED[-1], lost=5)
    body["engine_alone"] = _alone(tasks, args.scratch)
    body["buildkit"] = _buildkit(graph(args.steps), args.scratch) if args.steps else []
    body["pulls"] = _pulls()
    body["pulls_measured"] = _pulls_measured(args.scratch)
    body["load"] = {"before": before, "after": load()}
    if args.record is not None:
        text = json.dumps(record("scale", f"{len(tasks)} derivations", body), indent=1, sort_keys=True) + "\n"
        args.record.write_text(text)
    answer(json.dumps(body, indent=1, sort_keys=True))
    return 0


def _simulated(tasks: Sequence[Task], count: int, *, lost: int = 0) -> dict[str, Json]:
    workers = [
        Worker(name=f"w{n}", kinds=frozenset({Kind.SANDBOX}), slots=1, rate=RATE, overhead_ns=OVERHEAD_NS)
        for n in range(count)
    ]
    outages = tuple(Outage(worker=n, at_ns=60_000_000_000 * (n + 1)) for n in range(lost))
    started = time.process_time_ns()
    table = simulate(tasks, workers, World(line=LINE, outages=outages))
    took = time.process_time_ns() - started
    least = bounds(tasks, workers)
    moved = least_moved(tasks, range(len(tasks)))
    note(
        f"{count} simulated workers{f', {lost} lost' if lost else ''}: {duration_text(table.makespan_ns)}, "
        f"{table.makespan_ns / least.least_ns:.2f} of the least; {size_text(table.moved_bytes)} moved, "
        f"{table.moved_bytes / moved:.2f} of the least"
    )
    return {
        "workers": count,
        "workers_lost": lost,
        "makespan_ns": table.makespan_ns,
        "critical_path_ns": least.critical_path_ns,
        "work_by_workers_ns": least.work_ns,
        "utilisation_thousandths": round(1000 * table.utilisation(range(count))),
        "moved_bytes": table.moved_bytes,
        "least_moved_bytes": moved,
        "moved_by_least_thousandths": round(1000 * table.moved_bytes / moved),
        "steps_lost": sum(one.lost for one in table.ran),
        "deciding_ns_per_step": took // len(tasks),
    }


def _alone(tasks: Sequence[Task], parent: Path) -> list[Json]:
    """Measure the engine with its scheduler and store on workers that do nothing."""
    found: list[Json] = []
    for count in (1, 4, SIMULATED[-1]):
        folder = Path(tempfile.mkdtemp(prefix="derive-scale-", dir=parent))
        try:
            with LocalStore(folder / "store") as store:
                measured = run(tasks, store, [Nobody() for _ in range(count)], slots=1, pace=0)
        finally:
            remove_folder(folder)
        note(f"{count} workers that do nothing: {measured.wall_ns / measured.steps / 1e6:.1f} ms a derivation")
        found.append({"workers": count, **asdict(measured), "wall_ns_per_step": measured.wall_ns // measured.steps})
    return found


def _buildkit(tasks: Sequence[Task], parent: Path) -> list[Json]:
    """Measure builders of BuildKit, whose steps sleep for a part of what was recorded: all share these processors."""
    reason = why_unavailable(default_binaries())
    if reason is not None:
        note(f"BuildKit: not measured: {reason}")
        return []
    found: list[Json] = []
    for count in BUILDERS:
        folder = Path(tempfile.mkdtemp(prefix="derive-scale-", dir=parent))
        try:
            with builders(count, folder / "client") as executors, LocalStore(folder / "store") as store:
                measured = run(tasks, store, executors, slots=_SLOTS, pace=_PACE)
        finally:
            remove_folder(folder)
        workers = [Worker(name=f"w{n}", kinds=frozenset({Kind.SANDBOX}), slots=_SLOTS) for n in range(count)]
        least = bounds(tasks, workers)
        each = measured.wall_ns // measured.steps
        own = (measured.cpu_ns + measured.children_ns) // measured.steps
        note(
            f"{count} builders: {duration_text(measured.wall_ns)}, {each / 1e6:.0f} ms a step, "
            f"{own / 1e6:.0f} ms of processor time here"
        )
        found.append(
            {
                "workers": count,
                "slots": _SLOTS,
                **asdict(measured),
                "wall_ns_per_step": each,
                # What this machine gives for a derivation wherever it runs: the engine and its client of BuildKit.
                "own_cpu_ns_per_step": own,
                "slept_ns": int(_PACE * sum(task.duration_ns for task in tasks)),
                "critical_path_ns": int(_PACE * least.critical_path_ns),
                "work_by_workers_ns": int(_PACE * least.work_ns),
            }
        )
    return found


def _pulls() -> dict[str, Json]:
    """Return what it takes until 32 nodes have one new layer, by rates that are stated."""
    direct = pull_directly(NODES, LAYER, registry_rate=LINE, node_rate=LINE)
    mirror = pull_through_mirror(NODES, LAYER, registry_rate=LINE, node_rate=LINE, mirror_rate=LINE)
    slow = pull_through_mirror(NODES, LAYER, registry_rate=RATE // 10, node_rate=LINE, mirror_rate=LINE)
    slow_direct = pull_directly(NODES, LAYER, registry_rate=RATE // 10, node_rate=LINE)
    named = {"direct": direct, "mirror": mirror, "direct_slow_line": slow_direct, "mirror_slow_line": slow}
    return {"nodes": NODES, "layer_bytes": LAYER, **{name: asdict(one) for name, one in named.items()}}


def _pulls_measured(parent: Path) -> dict[str, Json]:
    """Measure a real registry with 32 nodes on loopback."""
    reason = pulls.lacking()
    if reason is not None:
        note(f"pulls: not measured: {reason}")
        return {}
    folder = Path(tempfile.mkdtemp(prefix="derive-scale-", dir=parent))
    try:
        found = pulls.measure(NODES, _PULLED, folder)
    finally:
        remove_folder(folder)
    for name, one in found.items():
        note(f"{NODES} nodes pull {size_text(_PULLED)}, {name}: {size_text(one.registry_bytes)} from the registry")
    return {"nodes": NODES, "layer_bytes": _PULLED, **{name: asdict(one) for name, one in found.items()}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
