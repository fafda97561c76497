# SPDX-License-Identifier: Apache-2.0
"""How long `derive why` takes to answer about a closure of a thousand derivations, start-up and all.

Edge: processes, stores.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from derive.canonical import encode, sha256
from derive.derivations.evaluate import Evaluator
from derive.derivations.model import Derivation, Output, TreeOutput, closure
from derive.derivations.scope import load_scope
from derive.project import Project
from derive.store import history
from derive.store.history import PastStep, Run
from derive.store.local import LocalStore
from speed.content import NAME, project_of
from speed.measure import Sample, command
from speed.measure import interleaved as take
from speed.nix import Nix, find_nix
from speed.scratch import Bench, remember
from speed.table import AtMost, Row, Time, median_time

GROUP = "why"
ARCHIVES = 500
"""Each is fetched and unpacked: with the root that makes 1,001 derivations."""

_MOVED = "p7"
_TEXTS = {
    "built": "derive why DERIVATION: the one package that moved",
    "named": "derive why NAME, the project as it was",
    "needed": "derive why PACKAGE --in DERIVATION",
    "became": "derive why DERIVATION DERIVATION",
}
_NS = 300_000_000
_ROUNDS = 15


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure the three questions, beside Nix printing the tree of as many derivations."""
    folder = setting.new_path("why")
    folder.mkdir()
    store, project = folder / "store", project_of(ARCHIVES)
    note(f"why: a store that knows two closures of {2 * ARCHIVES + 1} derivations")
    before, after = realise(project, store), realise(moved(project), store)
    write(moved(project), folder / "project")
    derive: list[str | Path] = [Path(sys.executable).with_name("derive"), "why", "--store", store]
    built, needed, became = f"drv:{after.id.hex}", f"drv:{before.id.hex}", f"drv:{after.id.hex}"
    cases: dict[str, Callable[[], Sample]] = {
        "built": _case([*derive, built], folder),
        "named": _case([*derive, NAME, "--project", folder / "project"], folder),
        "needed": _case([*derive, _MOVED, "--in", needed], folder),
        "became": _case([*derive, needed, became], folder),
    }
    nix = find_nix(setting.new_path("nix"))
    if isinstance(nix, Nix):
        cases["nix"] = nix.tree(ARCHIVES)
    else:
        note(f"nix: {nix}")
    for case in cases.values():
        case()  # once untimed: byte code, page cache, what is remembered of an unchanged project
    taken = take(cases, max(setting.rounds, _ROUNDS))
    beside = median_time(taken["nix"].wall_ns) if "nix" in taken else None
    return [
        Row(
            group=GROUP,
            what=what,
            amount=median_time(taken[key].wall_ns),
            beside="" if beside is None else "nix-store --query --tree",
            other=beside,
            target=AtMost(Time(_NS)),
            samples=taken[key].wall_ns,
        )
        for key, what in _TEXTS.items()
    ]


def moved(project: Project) -> Project:
    """Return the project with another version of one package in its lock."""
    file = "lock/many.lock.json"
    lock = json.loads(project.files[file])
    old, new = f"{_MOVED}_1_amd64.deb", f"{_MOVED}_2_amd64.deb"
    for entry in lock["entries"]:
        if entry["name"] == _MOVED:
            entry |= {"version": "2", "sha256": sha256(b"another").hex, "file": new}
            entry["locator"] = entry["locator"].replace(old, new)
    names = lock["closures"]["all"]["amd64"]
    lock["closures"]["all"]["amd64"] = sorted(new if name == old else name for name in names)
    lock["entries"].sort(key=lambda entry: (entry["name"], entry["version"]))
    return replace(project, files={**project.files, file: encode(lock)})


def realise(project: Project, store: Path) -> Derivation:
    """Note that a project's root was derived, each step with an output and a row of history of its own."""
    target = Evaluator(load_scope(project)).derivation(NAME, "linux/amd64")
    made: list[tuple[Derivation, dict[str, Output], Output]] = []
    outputs: dict[Derivation, Output] = {}
    for one in closure(target):
        inputs = {role: outputs[given.derivation] for role, given in one.inputs.items()}
        outputs[one] = one.fixed or TreeOutput(one.id)  # no tree lies there: none is read
        made.append((one, inputs, outputs[one]))
    with LocalStore(store) as opened:
        known = opened.database.resolved_ids(one.id for one, _, _ in made)
        made = [step for step in made if step[0].id not in known]
        remember(opened, made)
        _note(opened, target, [one for one, _, _ in made])
    return target


def _note(store: LocalStore, target: Derivation, steps: list[Derivation]) -> None:
    """Write the history of a run."""
    run = Run(
        run=0,
        target=target.id,
        name=target.name,
        host=target.host,
        jobs=1,
        started_s=0,
        expected_ns=None,
        expected_fetch_bytes=0,
        expected_write_bytes=None,
    )
    number = history.begin_run(store.database, run)
    resolved = store.database.resolved_ids(one.id for one in steps)
    for one in steps:
        step = PastStep(
            run=number,
            derivation=one.id,
            resolved=resolved[one.id],
            name=one.name,
            host=one.host,
            builder=f"{one.builder}/{one.version}",
            outcome="built" if one.fixed is None else "fetched",
            reason="",
            ended_s=0,
            duration_ns=1,
        )
        history.add_step(store.database, step)


def write(project: Project, folder: Path) -> None:
    """Write a project into a folder."""
    table = f'[tool.derive]\nformat = 1\ndefault-image = "{project.settings.default_image}"\n'
    files = {**project.files, "pyproject.toml": f'{table}build-platform = "linux/amd64"\n'.encode()}
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def _case(argv: list[str | Path], bytecode: Path) -> Callable[[], Sample]:
    """Run a command with its byte code at hand, as an installed engine has it and a checkout may not."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return lambda: command(argv, env={**env, "PYTHONPYCACHEPREFIX": str(bytecode)})
