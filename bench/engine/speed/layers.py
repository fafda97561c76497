# SPDX-License-Identifier: Apache-2.0
"""How fast .debs become a tree and a tree becomes a layer, and how many cores that keeps busy.

Edge: processes, stores.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from derive.build.plan import Plan
from derive.build.service import Options, executor, plan_for
from derive.derivations.model import Derivation, closure
from derive.store.local import LocalStore
from derive.trees.materialise import materialise, remove_folder
from speed.measure import Sample, Samples, command, in_child, settled
from speed.scratch import Bench, cold_store, tree_of
from speed.table import AtLeast, Factor, Rate, Row, median_time

GROUP = "unpacking and layers"
_CORES = 1.6
_UNPACK = 'mkdir "$2" && xargs -P "$1" -I {} dpkg-deb -x {} "$2" <"$3"'


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure with the image's first layer that is a Debian root, from a store that holds the fetches alone."""
    layer, root = root_layer(setting.target)
    archives = [one for one in closure(root) if one.builder == "unpack"]
    folder = setting.new_path("tree")
    with LocalStore(setting.store) as store:
        _, listing = tree_of(store, root)
        materialise(store, listing, folder)
        names = [store.blob_path(output.digest) for one in closure(root) if (output := one.fixed) is not None]
    files = setting.new_path("archives")
    files.write_text("".join(f"{name}\n" for name in names))
    note(f"layers: {len(archives)} archives, {listing.size / 1e6:.0f} MB unpacked, {setting.jobs} jobs")
    taken: dict[str, list[Sample]] = {}
    for _ in range(setting.rounds):
        for name, sample in _round(setting, layer, root, folder, files):
            taken.setdefault(name, []).append(sample)
    samples = {name: Samples(tuple(found)) for name, found in taken.items()}
    return [
        *_rows("unpack", f"unpack {len(archives)} .debs", samples, listing.size, _peers(samples, "dpkg")),
        *_rows("layer", "write the layer", samples, listing.size, _peers(samples, "gzip", "pigz")),
        _both(setting, samples),
    ]


def root_layer(target: Derivation) -> tuple[Derivation, Derivation]:
    """Return an image's first layer that is a Debian root alone, and that root."""
    for one in closure(target):
        inputs = [reference.derivation for reference in one.inputs.values()]
        if one.builder == "layer" and len(inputs) == 1 and inputs[0].builder == "debian-root":
            return one, inputs[0]
    raise AssertionError("no layer of this image is a Debian root")


def _round(setting: Bench, layer: Derivation, root: Derivation, folder: Path, files: Path) -> list[tuple[str, Sample]]:
    cold = cold_store(setting)
    jobs = str(setting.jobs)
    unpacked = setting.new_path("unpacked")
    found = [
        ("unpack", settled(lambda: in_child(lambda: _realise(setting, cold, root, before=True))[0])),
        ("dpkg", settled(lambda: command(["sh", "-c", _UNPACK, "sh", jobs, unpacked, files]))),
    ]
    in_child(lambda: _realise(setting, cold, root, before=False))
    found.append(("layer", settled(lambda: in_child(lambda: _realise(setting, cold, layer, before=False))[0])))
    for name, program in (("gzip", "gzip -6"), ("pigz", f"pigz -6 -p {jobs}")):
        if shutil.which(name) is not None:
            packed = setting.new_path("packed")
            script = f'tar -C "$1" -c . | {program} >"$2"'
            argv: list[str | Path] = ["sh", "-c", script, "sh", folder, packed]
            found.append((name, settled(partial(command, argv))))
            packed.unlink()
    remove_folder(unpacked)
    remove_folder(cold)
    return found


def _realise(setting: Bench, root: Path, target: Derivation, *, before: bool) -> int:
    """Realise what a target still needs, or, with ``before``, all of it but the target itself."""
    with LocalStore(root) as store:
        plan = plan_for(target, store, None)
        if before:
            steps = plan.steps[:-1]
            plan = Plan(target=steps[-1].derivation, steps=steps)
        executor(store, Options(jobs=setting.jobs, offline=True)).run(plan)
    return len(plan.steps)


def _peers(samples: dict[str, Samples], *names: str) -> list[tuple[str, Samples]]:
    words = {"dpkg": "dpkg-deb -x, as many at once", "gzip": "tar | gzip -6", "pigz": "tar | pigz -6"}
    return [(words[name], samples[name]) for name in names if name in samples]


def _rows(key: str, what: str, samples: dict[str, Samples], size: int, peers: list[tuple[str, Samples]]) -> list[Row]:
    mine = samples[key]
    time = median_time(mine.wall_ns)
    row = Row(group=GROUP, what=what, amount=time, samples=mine.wall_ns)
    return [
        *(replace(row, beside=name, other=median_time(other.wall_ns)) for name, other in peers),
        Row(group=GROUP, what=f"{what}: contents", amount=Rate(size * 10**9 // time.ns)),
        Row(group=GROUP, what=f"{what}: CPU time over wall time", amount=Factor(mine.cores)),
    ]


def _both(setting: Bench, samples: dict[str, Samples]) -> Row:
    rounds = zip(samples["unpack"].all, samples["layer"].all, strict=True)
    cores = statistics.median((a.cpu_ns + b.cpu_ns) / (a.wall_ns + b.wall_ns) for a, b in rounds)
    what = f"both: CPU time over wall time, {setting.jobs} jobs"
    target = AtLeast(Factor(_CORES)) if setting.jobs > 1 else None
    return Row(group=GROUP, what=what, amount=Factor(cores), target=target)
