# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.derivations.model import Derivation
from derive.store import graph as stored
from derive.store.database import Database
from derive.store.history import end_run, note_answer, runs
from derive.store.local import LocalStore
from derive.why.find import Finder
from derive.why.latest import latest, wanted_in
from support.steps import realise, step


@pytest.fixture
def finder(tmp_path: Path) -> Iterator[Finder]:
    def no_project() -> None:
        raise AssertionError

    with LocalStore(tmp_path / "store") as store:
        yield Finder(store, no_project)  # type: ignore[arg-type]


TOOLS = [step("tool", word=word) for word in ("a", "b")]
TOPS = [step("top", "script", {"tool": tool}) for tool in TOOLS]


def derived(database: Database, target: Derivation) -> None:
    realise(database, target, at_s=1)
    end_run(database, runs(database, target.name)[0].run, "done", 1)


def answer(database: Database, target: Derivation) -> None:
    note_answer(database, target.id, target.name, target.host, 1)


def test_the_derivation_that_was_wanted_last_is_the_latest_also_below_another(finder: Finder) -> None:
    database = finder.store.database
    for top in TOPS:
        derived(database, top)
    for name, pair in (("tool", TOOLS), ("top", TOPS)):
        assert latest(database, finder.closure, stored.named(database, name)).id == pair[1].id
    answer(database, TOPS[0])
    for name, pair in (("tool", TOOLS), ("top", TOPS)):
        assert latest(database, finder.closure, stored.named(database, name)).id == pair[0].id
    answer(database, TOOLS[1])
    assert latest(database, finder.closure, stored.named(database, "tool")).id == TOOLS[1].id
    assert latest(database, finder.closure, stored.named(database, "top")).id == TOPS[0].id


def test_only_runs_between_two_others_count(finder: Finder) -> None:
    database, ids = finder.store.database, {one.id for one in TOOLS}
    for top in TOPS:
        derived(database, top)
    answer(database, TOPS[0])
    assert dict(wanted_in(database, finder.closure, ids, after=0)) == {TOOLS[0].id: 3, TOOLS[1].id: 2}
    assert dict(wanted_in(database, finder.closure, ids, after=1, before=3)) == {TOOLS[1].id: 2}


def test_a_target_that_the_store_forgot_says_nothing(finder: Finder) -> None:
    answer(finder.store.database, TOPS[0])
    assert not wanted_in(finder.store.database, finder.closure, {TOOLS[0].id}, after=0)
