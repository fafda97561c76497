# SPDX-License-Identifier: Apache-2.0
"""How long it takes to find that nothing is to be done, for 1,000 to 10,000 derivations.

Edge: processes, stores.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from derive.build.execute import store_knowledge
from derive.build.plan import make_plan
from derive.derivations.evaluate import Evaluator
from derive.derivations.model import Derivation, FlatOutput, Output, TreeOutput, closure
from derive.derivations.scope import load_scope
from derive.project import Project
from derive.store.listings import blobs_of
from derive.store.local import LocalStore
from derive.trees.pack import NewFile, add_members
from speed.content import NAME, project_of
from speed.measure import Sample, Samples, in_child
from speed.measure import interleaved as take
from speed.nix import Nix, find_nix
from speed.scratch import Bench, remember
from speed.table import AtMost, Factor, Row, Time, median_time

GROUP = "planning"
ARCHIVES = (500, 1500, 5000)
"""Each is fetched and unpacked: with the root that makes 1,001, 3,001 and 10,001 derivations."""

_ALL_NS = 1_000_000_000
_LINEAR = 1.5
_ROUNDS = 5


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure from the bytes of a project's files to the plan, beside Nix instantiating as many derivations."""
    nix = find_nix(setting.new_path("nix"))
    if isinstance(nix, str):
        note(f"nix: {nix}")
    cases: dict[str, Callable[[], Sample]] = {}
    for archives in ARCHIVES:
        note(f"planning: a store that knows {derivations(archives)} derivations")
        project, store = project_of(archives), setting.new_path("known")
        fill(project, store)
        cases[f"target {archives}"] = _case(project, store, whole=False)
        cases[f"whole {archives}"] = _case(project, store, whole=True)
        if isinstance(nix, Nix):
            nix.instantiate(archives)  # once untimed: the first time it writes them into its store
            cases[f"nix {archives}"] = _nix_case(nix, archives)
    taken = take(cases, max(setting.rounds, _ROUNDS))
    rows = [row for archives in ARCHIVES for row in _rows(archives, taken)]
    return [*rows, _linear(taken)]


def derivations(archives: int) -> int:
    """Return how many derivations a root of that many archives has."""
    return 2 * archives + 1


def fill(project: Project, store: Path) -> None:
    """Make a store that knows an output of every derivation of the project's root."""
    target = _evaluate(project)
    with LocalStore(store) as opened:
        listing = add_members(opened, [(b"file", NewFile(executable=False, chunks=[b"contents"]))])
        tree = TreeOutput(opened.add_listing(listing))
        file = FlatOutput(next(iter(blobs_of(listing))))
        made: list[tuple[Derivation, dict[str, Output], Output]] = []
        for derivation in closure(target):
            inputs: dict[str, Output] = {
                role: reference.derivation.fixed or tree for role, reference in derivation.inputs.items()
            }
            made.append((derivation, inputs, tree if derivation.fixed is None else file))
        remember(opened, made)


def plan(project: Project, store: Path, *, whole: bool) -> int:
    """Evaluate and plan, as a command does; return how many steps the plan has."""
    target = _evaluate(project)
    with LocalStore(store) as opened:
        found = make_plan(target, store_knowledge(opened), whole=whole)
    if not found.is_done:
        raise AssertionError("the store knows every derivation, and the plan has work to do")
    return len(found.steps)


def _evaluate(project: Project) -> Derivation:
    return Evaluator(load_scope(project)).derivation(NAME, "linux/amd64")


def _case(project: Project, store: Path, *, whole: bool) -> Callable[[], Sample]:
    return lambda: in_child(lambda: plan(project, store, whole=whole))[0]


def _nix_case(nix: Nix, archives: int) -> Callable[[], Sample]:
    return lambda: nix.instantiate(archives)


def _rows(archives: int, taken: dict[str, Samples]) -> list[Row]:
    count = f"{derivations(archives):,} derivations"
    nix = taken.get(f"nix {archives}")
    found = []
    for key, what in (("target", f"plan {count}"), ("whole", f"plan {count}, looking at every output")):
        times = taken[f"{key} {archives}"].wall_ns
        found.append(
            Row(
                group=GROUP,
                what=what,
                amount=median_time(times),
                beside="" if nix is None else "nix-instantiate of as many",
                other=None if nix is None else median_time(nix.wall_ns),
                target=AtMost(Time(_ALL_NS)) if (key, archives) == ("target", ARCHIVES[-1]) else None,
                samples=times,
            )
        )
    return found


def _linear(taken: dict[str, Samples]) -> Row:
    few, many = ARCHIVES[0], ARCHIVES[-1]
    each = [median_time(taken[f"target {n}"].wall_ns).ns / derivations(n) for n in (few, many)]
    return Row(
        group=GROUP,
        what=f"time a derivation, {derivations(many):,} over {derivations(few):,}",
        amount=Factor(each[1] / each[0]),
        target=AtMost(Factor(_LINEAR)),
    )
