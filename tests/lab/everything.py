# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios at labs that are built for them, one lab for each cabling, and writes down how each came out.

Edge: builds labs, writes a record.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from derive.build.engine import engine_digest
from derive.canonical import Json
from derive.records.numbered import Numbered
from lab.places import Cabling, HostKind
from lab.project import BAD, FIRST, SECOND, SHAPE, Project, make_project
from lab.scenarios import SCENARIOS, Scenario
from lab.scene import Facts, Scene
from lab.testbed import LabError, attached, lab
from speed.machine import facts_of, load
from support.cli import CHECKOUT, derive
from support.memguard import built
from support.starving import measure

RECORDS: Final = Numbered("records/lab", "lab")
CABLINGS: Final[tuple[Cabling, ...]] = ("triangle", "ring4")
KINDS: Final = {"spark2": HostKind(images="containerd"), "spark3": HostKind(init="tini")}
RELEASES: Final = (FIRST, SECOND, BAD)
FAKE: Final = ("RDMA devices", "the amount of memory", "the ids of boots")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a scenario came out at a cabling; ``why`` is None where it came out as it should."""

    scenario: Scenario
    cabling: Cabling
    why: str | None
    duration_ns: int
    facts: Facts

    def document(self) -> dict[str, Json]:
        """Return it as part of a record."""
        return {
            "scenario": self.scenario.name,
            "cabling": self.cabling,
            "says": self.scenario.says,
            "passed": self.why is None,
            "why": self.why,
            "duration_ns": self.duration_ns,
            "facts": self.facts,
        }


def chosen(names: Sequence[str]) -> list[Scenario]:
    """Return the scenarios of these names, all where none is named; raises LabError for one that there is not."""
    known = {one.name: one for one in SCENARIOS}
    if unknown := [name for name in names if name not in known]:
        raise LabError(f"no scenario is called {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] if names else list(SCENARIOS)


def run_all(names: Sequence[str], cablings: Iterable[Cabling], store: Path) -> list[Outcome]:
    """Run scenarios, and tell of each on standard error."""
    _say("deriving the image probe, where the store has it not")
    derive("image", "probe", "--platform", "linux/amd64", "--store", str(store)).answer  # noqa: B018 - it must succeed
    outcomes: list[Outcome] = []
    for cabling in cablings:
        wanted = [one for one in chosen(names) if cabling in one.cablings]
        if wanted:
            with scene_at(cabling, store) as scene:
                outcomes += [_tried(one, scene, cabling) for one in wanted]
    return outcomes


def run_here(names: Sequence[str]) -> list[Outcome]:
    """Run scenarios at the lab that is up, with the project that it has."""
    made = attached()
    scene = Scene(made, Project({}, SHAPE[made.cabling]))
    return [_tried(one, scene, made.cabling) for one in chosen(names)]


@contextmanager
def scene_at(cabling: Cabling, store: Path) -> Iterator[Scene]:
    """Give a lab with all kinds of nodes, and all releases."""
    with lab(cabling, store=store, kinds=KINDS) as made:
        yield Scene(made, make_project(made, RELEASES))


def _tried(scenario: Scenario, scene: Scene, cabling: Cabling) -> Outcome:
    _say(f"{cabling}  {scenario.name}")
    why, facts = None, Facts()
    began = time.monotonic_ns()
    try:
        scene.settle(FIRST)
        began = time.monotonic_ns()
        facts = scenario.run(scene)
    except Exception as error:  # noqa: BLE001 - the list goes on, whatever a scenario met
        why = str(error) or repr(error)
        traceback.print_exc()
    took = time.monotonic_ns() - began
    _say(f"{cabling}  {scenario.name}  {'as it should be' if why is None else 'FAILED'}  {took / 1e9:.1f} s")
    return Outcome(scenario=scenario, cabling=cabling, why=why, duration_ns=took, facts=facts)


def starve(store: Path) -> dict[str, Any]:
    """Starve real containers of memory, and return how long their guards took: 50 rounds for each interval."""
    _say("guards: 50 containers that take memory, for each of two intervals")
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="derive-starving-") as folder:
        return measure(built(store), Path(folder), say=lambda line: _say(f"guards: {line}"))


def write_record(outcomes: Sequence[Outcome], guards: dict[str, Any], before: str) -> Path:
    """Write how a whole run came out into the project's records, and return the path."""
    failed = sum(one.why is not None for one in outcomes)
    body: dict[str, Json] = {
        "engine": str(engine_digest()),
        "machine": dict(facts_of(Path("/var/tmp"))),
        "load": {"before": before, "after": load()},
        "fake": list(FAKE),
        "passed": len(outcomes) - failed,
        "failed": failed,
        "guards": guards,
        "outcomes": [one.document() for one in outcomes],
    }
    return RECORDS.add(CHECKOUT, "site", body)


def _say(text: str) -> None:
    sys.stderr.write(f"lab: {text}\n")
