# SPDX-License-Identifier: Apache-2.0
"""Steps that are placed on a real builder of BuildKit: the same digests as here, and where each ran is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from derive.build.builders.script import build as script
from derive.build.check import check_closure
from derive.build.context import Context
from derive.build.execute import Executor, store_knowledge
from derive.build.fetching import StoreFetch
from derive.build.plan import make_plan
from derive.derivations.model import FlatOutput, Output, ResolvedDerivation, closure
from derive.sandbox.probe import find_sandbox
from derive.schedule.choose import Chosen, placer
from derive.schedule.config import ExecutorEntry
from derive.schedule.seen import see
from derive.store.history import placed_steps
from derive.store.local import LocalStore
from speed.placed import PLATFORM, builders, derivations
from speed.private_docker import default_binaries, why_unavailable
from speed.recorded import graph
from support.archives import put
from support.require import skip_or_fail

pytestmark = [pytest.mark.docker, pytest.mark.sandbox]


def ran(
    store: LocalStore, chosen: Chosen | None, told: list[str], checked: list[tuple[str, bool]] | None = None
) -> Mapping[str, str]:
    """Run three steps, and return what each of them gave; ``checked`` is told of a check where each step ran."""
    given: dict[str, str] = {}
    where: dict[str, bool] = {}

    def noted(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
        outputs = script(request, context)
        given[context.name] = str(outputs["out"])
        where[context.name] = context.executor is not None
        return outputs

    def last(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
        return {"out": FlatOutput(put(context.store, request.id.hex.encode()))}

    executor = Executor(
        store=store,
        builders={"script": noted, "compose": last},
        fetch=StoreFetch(offline=True),
        sandbox=cache(find_sandbox),
        jobs=2,
        inner_jobs=1,
        placer=None if chosen is None else placer(chosen, store, 1, told.append),
    )
    target = derivations(graph(3), 0.001, store)
    executor.run(make_plan(target, store_knowledge(store)))
    if checked is not None:
        where.clear()
        but = [one.id for one in closure(target) if one.builder != "script"]
        assert check_closure(target, executor, lambda _, __: None, but=but) == (len(given), [])
        checked += sorted(where.items())
    return given


def test_steps_placed_on_a_builder_give_what_they_give_here_and_one_that_is_absent_is_left_out(tmp_path: Path) -> None:
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    with LocalStore(tmp_path / "here") as store:
        here = ran(store, None, [])
    one = ExecutorEntry(name="one", builder="w0", platforms=(PLATFORM,), jobs=2)
    absent = ExecutorEntry(name="absent", builder="nowhere", platforms=(PLATFORM,), jobs=2, speed=9000)
    told: list[str] = []
    with builders(1, tmp_path / "client"), LocalStore(tmp_path / "there") as store:
        checked: list[tuple[str, bool]] = []
        there = ran(store, Chosen(entries=(one, absent), here=False), told, checked)
        places = {name: executor for name, _, _, executor, _ in placed_steps(store.database)}
        seen = see((one, absent), {})
    assert there == here
    assert places == dict.fromkeys(here, "one")
    assert checked == [(name, True) for name in sorted(here)]
    assert [line.partition(":")[0] for line in told] == ["absent is left out from now on"] * 2  # also by the check
    assert [(single.is_ready, bool(single.versions)) for single in seen] == [(True, True), (False, False)]
