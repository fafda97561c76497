# SPDX-License-Identifier: Apache-2.0
"""Steps that are placed on a real builder of BuildKit: the same digests as here, and where each ran is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from derive.build.builders.script import build as script
from derive.build.context import Context
from derive.build.execute import Executor, store_knowledge
from derive.build.fetching import StoreFetch
from derive.build.plan import make_plan
from derive.derivations.model import FlatOutput, Output, ResolvedDerivation
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


def ran(store: LocalStore, chosen: Chosen | None, told: list[str]) -> Mapping[str, str]:
    """Run three steps, and return what each of them gave."""
    given: dict[str, str] = {}

    def noted(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
        outputs = script(request, context)
        given[context.name] = str(outputs["out"])
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
    executor.run(make_plan(derivations(graph(3), 0.001, store), store_knowledge(store)))
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
        there = ran(store, Chosen(entries=(one, absent), here=False), told)
        places = {name: executor for name, _, _, executor, _ in placed_steps(store.database)}
        seen = see((one, absent), {})
    assert there == here
    assert places == dict.fromkeys(here, "one")
    assert [line.partition(":")[0] for line in told] == ["absent is left out from now on"]
    assert [(single.is_ready, bool(single.versions)) for single in seen] == [(True, True), (False, False)]
