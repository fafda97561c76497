# SPDX-License-Identifier: Apache-2.0
"""The production image where it is derived already: nothing to do, one line of one patch changed, a package added.

Edge: processes, a linked copy of the store, copies of the project.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from derive.build.service import evaluate, plan_for
from derive.canonical import Digest
from derive.derivations.declarations import WheelsDecl
from derive.derivations.model import DEBIAN_ARCHITECTURE
from derive.derivations.scope import Scope, load_scope
from derive.errors import InputErrors
from derive.lock.documents import PythonLock
from derive.store.local import LocalStore
from speed.image import copy_content
from speed.measure import CannotMeasureError, Sample, Samples, command, settled, watched
from speed.scratch import Bench, linked_copy
from speed.table import AtMost, Count, Row, Size, Time, median_time

GROUP = "the production image"
IMAGE, DECLARATION, PATCHED = "ds41f", "ds41f-wheels", "vllm"

_ROUNDS = 15
_NOTHING_NS = 300_000_000
_PATCH_NS = 10_000_000_000
_PULL = AtMost(Size(60_000_000))
_PULLED_LAYERS = AtMost(Count(3))
_ADDED_LAYERS = AtMost(Count(1))
_MEMORY = AtMost(Size(1_000_000_000))

_PYTHON_LINE = re.compile(rb"(?m)(^\+\+\+ [^\n]*\.py\n(?:(?!^(?:diff|---) )[^\n]*\n)*?)(\+[^\n]*)$")
"""What leads to the first added line of a Python file, and that line."""

Layers = Mapping[str, int]


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure in a copy of the store; where it does not hold the image, say so and measure nothing."""
    try:
        target = evaluate(setting.project, f"image:{IMAGE}", None)
    except InputErrors as error:
        note(f"production: not measured: {error}")
        return []
    with LocalStore(setting.store) as store:
        todo = [step for step in plan_for(target, store, None, to_run=False).steps if step.outputs is None]
    if todo:
        note(f"production: not measured: {IMAGE} is not in the store: derive image {IMAGE}, then measure")
        return []
    copy, store_copy = setting.new_path("project"), linked_copy(setting.store, setting.new_path("store"))
    copy_content(setting.root, copy)
    name = f"{IMAGE} {target.host}"
    derive = partial(_derive, store_copy, setting.jobs)
    command(derive(copy))  # once untimed: the page cache
    before = layers_of(store_copy, name)
    nothing = Samples(tuple(command(derive(copy)) for _ in range(max(setting.rounds, _ROUNDS))))
    patched: list[Sample] = []
    for turn in range(setting.rounds):
        change_a_line(copy, turn)
        patched.append(settled(lambda: watched(derive(copy))))
    after = layers_of(store_copy, name)
    found = _patch_rows(Samples(tuple(patched)), before, after)
    smaller = setting.new_path("project")
    copy_content(setting.root, smaller)
    added = leave_out_a_wheel(smaller, load_scope(setting.project))
    note(f"production: {added} is the package that is added, among those that share layers")
    command(derive(smaller))
    moved = moved_layers(layers_of(store_copy, name), before)
    what = f"derive image {IMAGE}, nothing to do"
    times = nothing.wall_ns
    target_ns = AtMost(Time(_NOTHING_NS))
    return [
        Row(group=GROUP, what=what, amount=median_time(times), target=target_ns, samples=times),
        *found,
        Row(group=GROUP, what="a package added: layers to pull", amount=Count(len(moved)), target=_ADDED_LAYERS),
        Row(group=GROUP, what="    bytes to pull", amount=Size(sum(moved.values()))),
    ]


def _patch_rows(samples: Samples, before: Layers, after: Layers) -> list[Row]:
    moved = moved_layers(before, after)
    what, times = f"one line of a patch on {PATCHED} changed", samples.wall_ns
    limit = AtMost(Time(_PATCH_NS))
    return [
        Row(group=GROUP, what=what, amount=median_time(times), target=limit, samples=times),
        Row(group=GROUP, what="    the engine's peak memory", amount=Size(samples.peak_bytes), target=_MEMORY),
        Row(group=GROUP, what="    layers to pull", amount=Count(len(moved)), target=_PULLED_LAYERS),
        Row(group=GROUP, what="    bytes to pull", amount=Size(sum(moved.values())), target=_PULL),
    ]


def moved_layers(old: Layers, new: Layers) -> Layers:
    """Return the layers that somebody who has the old image lacks of the new one."""
    return {digest: size for digest, size in new.items() if digest not in old}


def layers_of(root: Path, name: str) -> Layers:
    """Return the layers of the image that a store has under a name, with their sizes."""
    with LocalStore(root) as store:
        (manifest,) = [one for kind, known, one in store.database.roots() if (kind, known) == ("image", name)]
        document: Mapping[str, Sequence[Mapping[str, str | int]]] = json.loads(b"".join(store.read_blob(manifest)))
    return {str(Digest.parse(str(layer["digest"]))): int(layer["size"]) for layer in document["layers"]}


def change_a_line(root: Path, turn: int) -> None:
    """Give the first line that a patch of the series adds to a Python file a comment, each turn another one.

    Raises:
        CannotMeasureError: when no patch adds a line to one.
    """
    for path in sorted((root / "patches" / PATCHED).glob("*.patch")):
        data = path.read_bytes()
        changed = _PYTHON_LINE.sub(lambda found: found[1] + _commented(found[2], turn), data, count=1)
        if changed != data:
            path.write_bytes(changed)
            return
    raise CannotMeasureError(f"no patch of {PATCHED} adds a line to a Python file")


def _commented(line: bytes, turn: int) -> bytes:
    return re.sub(rb"  # measured \d+$", b"", line) + b"  # measured %d" % turn


def leave_out_a_wheel(root: Path, scope: Scope) -> str:
    """Have a project leave out a wheel of middling size that shares a layer, and return its name.

    Raises:
        CannotMeasureError: when the declaration has no table of what it leaves out.
    """
    declared, image = scope.declared[DECLARATION], scope.images[IMAGE]
    decl = declared.declaration
    assert isinstance(decl, WheelsDecl)
    lock = scope.locks[decl.set]
    assert isinstance(lock, PythonLock)
    own = {one for layer in image.layers if layer.split is not None for one in layer.split.own}
    special = {*own, *decl.without, *decl.patches, *decl.drop}
    wheels = lock.target(decl.python, DEBIAN_ARCHITECTURE[image.default_platform])
    sharing = sorted((one for one in wheels if one.name not in special), key=lambda one: (one.size, one.name))
    middle = sharing[len(sharing) // 2]
    path, head = root / declared.file, f"[{DECLARATION}.without]\n"
    text = path.read_text()
    if head not in text:
        raise CannotMeasureError(f"{declared.file} has no table {head.strip()}")
    path.write_text(text.replace(head, f'{head}{middle.name} = "measured without it"\n'))
    return middle.name


def _derive(store: Path, jobs: int, project: Path) -> list[str | Path]:
    derive = Path(sys.executable).with_name("derive")
    where: list[str | Path] = ["--project", project, "--store", store]
    return [derive, "image", IMAGE, "--offline", "--jobs", str(jobs), *where]
