# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.derivations.model import closure
from derive.errors import Corrupt
from derive.store import graph
from derive.store.database import Database
from support.steps import fetch_deb, realise, root, step

OLD, NEW = (root("base", fetch_deb("bash", version), fetch_deb("dash")) for version in ("1", "2"))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "derive.sqlite")
    realise(opened, OLD, at_s=1)
    realise(opened, NEW, at_s=2)
    yield opened
    opened.close()


def test_a_closure_is_all_that_is_named_below_but_the_fetches(database: Database) -> None:
    found = graph.load_closure(database, [NEW.id])
    assert set(found) == {one.id for one in closure(NEW) if one.fixed is None}
    assert found[NEW.id].host == "linux/amd64"
    assert found[NEW.id].builder == "debian-root/1"


def test_what_is_known_already_is_not_asked_again(database: Database) -> None:
    known = graph.load_closure(database, [OLD.id])
    more = graph.load_closure(database, [NEW.id], known)
    assert sorted(row.name for row in more.values()) == ["base", "bash_2_amd64.deb unpacked"]
    assert graph.load_closure(database, [OLD.id], known) == {}


def test_a_closure_may_have_gaps(database: Database) -> None:
    top = step("top", "script", {"a": step("nobody knows this", "script", {"b": OLD})})
    database.map_derivation(top.id, top.name, top.id, top.encoded())
    assert set(graph.load_closure(database, [top.id])) == {top.id}


def test_ids_are_found_by_their_beginnings(database: Database) -> None:
    (found,) = graph.by_prefix(database, NEW.id.hex[:12])
    assert found.id == NEW.id
    assert graph.by_prefix(database, "0" * 12) == ()


def test_what_was_realised_last_of_a_name_comes_last(database: Database) -> None:
    assert [row.id for row in graph.named(database, "base")] == [OLD.id, NEW.id]
    assert graph.named(database, "nothing") == ()


def test_what_has_no_history_is_ordered_by_when_it_was_built(tmp_path: Path) -> None:
    database = Database(tmp_path / "derive.sqlite")
    realise(database, NEW, at_s=1, steps=False)
    realise(database, OLD, at_s=2, steps=False)
    assert [row.id for row in graph.named(database, "base")] == [NEW.id, OLD.id]
    database.close()


def test_artifacts_are_found_whatever_their_version(database: Database) -> None:
    assert [row.name for row in graph.like(database, "fetch-deb", "bash")] == ["bash_1_amd64.deb", "bash_2_amd64.deb"]
    assert len(graph.like(database, "unpack", "bash")) == 2
    assert graph.like(database, "unpack", "bas") == ()
    assert len(graph.globbed(database, "bash_* unpacked")) == 2


def test_fetches_are_found_by_hash_with_a_name_that_fits_and_without(database: Database) -> None:
    deb = fetch_deb("bash", "2")
    assert deb.fixed is not None
    key = deb.fixed.digest.hex
    assert graph.fetches(database, [key], [deb.name])[key].id == deb.id
    assert graph.fetches(database, [key], ["something else"])[key].id == deb.id
    assert graph.fetches(database, ["0" * 64]) == {}


def test_outputs_lead_back_to_what_gave_them(database: Database) -> None:
    rows = graph.load_closure(database, [NEW.id])
    outputs = graph.outputs(database, rows.values())
    assert outputs[NEW.id] == {"out": f"nar:{NEW.id}"}
    (giver,) = graph.givers(database, Digest(NEW.id.hex))
    assert giver.id == NEW.id
    assert graph.outputs_like(database, NEW.id.hex[:12]) == {NEW.id}
    assert graph.outputs_like(database, "0" * 12) == frozenset()


def test_a_run_knows_what_it_was_asked_for(database: Database) -> None:
    assert graph.run_target(database, 1) == (OLD.id, "base", "linux/amd64")
    assert graph.run_target(database, 99) is None


def test_more_ids_than_one_statement_takes_are_asked_in_parts(database: Database) -> None:
    many = [Digest(f"{number:064x}") for number in range(40_000)]
    assert set(graph.derivations(database, [*many, NEW.id])) == {NEW.id}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"builder":"a/1","build":"any","host":"any","arguments":{}}'])
def test_a_document_that_is_damaged_is_told_to_be(database: Database, text: str) -> None:
    with database.cursor() as cursor:
        cursor.execute("UPDATE derivations SET document = ? WHERE id = ?", (text, NEW.id.hex))
    with pytest.raises(Corrupt, match=NEW.id.hex[:12]):
        graph.load_closure(database, [NEW.id])
