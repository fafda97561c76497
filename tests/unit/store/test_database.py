# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import HostRefuses
from derive.store.database import _HISTORY, _SCHEMA, Database, Realisation

RESOLVED, DERIVATION, TREE = sha256(b"resolved"), sha256(b"derivation"), sha256(b"tree")
ENTRY = Realisation(
    resolved=RESOLVED,
    outputs={"out": f"nar:{TREE}", "dev": f"flat:{sha256(b'file')}"},
    builder="script/1",
    engine="e" * 64,
    host="x86_64",
    duration_ns=12,
    log="a.log",
    built_s=34,
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "derive.sqlite")
    yield database
    database.close()


def add(database: Database, entry: Realisation = ENTRY, derivation: Digest = DERIVATION, name: str = "tool") -> None:
    database.add_realisation(entry, derivation, name, b'{"derive":"derivation/1"}')


def test_making_the_object_touches_nothing(tmp_path: Path) -> None:
    Database(tmp_path / "derive.sqlite").close()
    assert list(tmp_path.iterdir()) == []


def test_a_realisation_comes_back_whole_also_from_another_connection(tmp_path: Path, database: Database) -> None:
    add(database)
    other = Database(tmp_path / "derive.sqlite")
    assert database.realisation(RESOLVED) == other.realisation(RESOLVED) == ENTRY
    other.close()


def test_what_is_not_known_is_not_there(database: Database) -> None:
    assert database.realisation(RESOLVED) is None
    assert database.realisations([]) == {}
    assert database.resolved_ids([DERIVATION]) == {}
    assert database.tree_blobs(TREE) == []
    assert database.memo(TREE) is None
    assert database.roots() == []
    assert database.find_derivations("tool") == []


def test_the_first_realisation_of_a_resolved_id_stands(database: Database) -> None:
    add(database)
    later = replace(ENTRY, outputs={"out": f"nar:{sha256(b'other')}"}, duration_ns=99)
    assert database.add_realisation(later, sha256(b"second"), "tool2", b"{}") == ENTRY
    assert database.realisation(RESOLVED) == ENTRY
    assert database.resolved_ids([sha256(b"second")]) == {sha256(b"second"): RESOLVED}


def test_a_realisation_can_be_replaced_on_purpose(database: Database) -> None:
    add(database)
    later = replace(ENTRY, duration_ns=99)
    assert database.replace_realisation(later, DERIVATION, "tool", b"{}") == later
    assert database.realisation(RESOLVED) == later


def test_more_ids_than_one_statement_takes_are_asked_in_parts(database: Database) -> None:
    entries = [replace(ENTRY, resolved=sha256(b"%d" % index)) for index in range(1201)]
    for entry in entries:
        add(database, entry, sha256(entry.resolved.hex.encode()))
    wanted = [entry.resolved for entry in entries]
    assert database.realisations([*wanted, TREE]) == {entry.resolved: entry for entry in entries}
    by_id = database.resolved_ids(sha256(digest.hex.encode()) for digest in wanted)
    assert by_id == {sha256(digest.hex.encode()): digest for digest in wanted}


def test_a_derivation_is_found_by_name_or_by_the_beginning_of_its_id(database: Database) -> None:
    add(database)
    expected = [("tool", DERIVATION, RESOLVED, '{"derive":"derivation/1"}')]
    for text in ("tool", DERIVATION.hex, DERIVATION.short):
        assert database.find_derivations(text) == expected
    for text in (DERIVATION.hex[:11], DERIVATION.hex[1:20], "too", "TOOL", ""):
        assert database.find_derivations(text) == []


@pytest.mark.parametrize("text", ["*" * 12, "?" * 12, "[0-9a-f]" * 3, "%" * 12, "'; DROP TABLE x"])
def test_a_name_is_no_pattern(database: Database, text: str) -> None:
    add(database)
    assert database.find_derivations(text) == []


def test_a_derivation_maps_to_its_latest_resolved_id(database: Database) -> None:
    database.map_derivation(DERIVATION, "tool", TREE, b"{}")
    database.map_derivation(DERIVATION, "tool", RESOLVED, b"{}")
    assert database.resolved_ids([DERIVATION]) == {DERIVATION: RESOLVED}


def test_the_blobs_under_a_tree_are_replaced_together(database: Database) -> None:
    one, two, three = (sha256(b"%d" % index) for index in range(3))
    database.add_tree(TREE, [one, two])
    assert sorted(database.tree_blobs(TREE)) == sorted([one, two])
    database.add_tree(TREE, [three])
    assert database.tree_blobs(TREE) == [three]
    database.add_tree(TREE, [])
    assert database.tree_blobs(TREE) == []


def test_a_failed_change_leaves_everything_as_it_was(database: Database) -> None:
    one = sha256(b"1")
    database.add_tree(TREE, [one])
    with pytest.raises(sqlite3.IntegrityError):
        database.add_tree(TREE, [sha256(b"2"), sha256(b"2")])
    assert database.tree_blobs(TREE) == [one]
    database.add_tree(TREE, [])


def test_roots_are_listed_sorted_and_a_name_is_moved(database: Database) -> None:
    database.set_root("release", "b", RESOLVED)
    database.set_root("image", "z", RESOLVED)
    database.set_root("release", "b", TREE)
    assert database.roots() == [("image", "z", RESOLVED), ("release", "b", TREE)]


def test_a_worker_is_the_last_one_set_and_none_where_this_machine_ran_the_step(database: Database) -> None:
    assert database.worker(TREE) == {}
    database.set_worker(TREE, {"builder": "one", "kernel": "6.1"})
    assert database.worker(TREE) == {"builder": "one", "kernel": "6.1"}
    database.set_worker(TREE, {})
    assert database.worker(TREE) == {}


def test_a_memo_is_the_last_value_set(database: Database) -> None:
    database.set_memo(TREE, "a")
    database.set_memo(TREE, "b")
    assert database.memo(TREE) == "b"


def test_a_database_of_another_version_is_refused_with_the_next_step(tmp_path: Path, database: Database) -> None:
    database.set_memo(TREE, "a")
    database.close()
    with sqlite3.connect(tmp_path / "derive.sqlite") as raw:
        raw.execute("PRAGMA user_version=99")
    raw.close()
    with pytest.raises(HostRefuses) as caught:
        database.memo(TREE)
    assert caught.value.detail == ("expected  version 4", "got       version 99")
    assert "--store" in str(caught.value.hint)


def test_an_earlier_database_that_can_be_read_and_not_written_is_read_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as raw:
        raw.executescript(f"{_SCHEMA}{_HISTORY} PRAGMA journal_mode=WAL; PRAGMA user_version=2;")
        raw.execute("INSERT INTO memos VALUES (?, 'kept')", (TREE.hex,))
    raw.close()
    before = path.read_bytes()
    url = f"file:{path}?mode=ro"

    def connect(_: Path, *__: str) -> sqlite3.Connection:
        return sqlite3.connect(url, uri=True, isolation_level=None, check_same_thread=False)

    monkeypatch.setattr("derive.store.database._connect", connect)
    database = Database(path)
    assert database.memo(TREE) == "kept"
    with database.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FROM substitutions").fetchone() == (0,)
    with pytest.raises(HostRefuses, match="cannot be written"):
        database.set_memo(TREE, "other")
    database.close()
    assert path.read_bytes() == before


def test_a_database_of_the_version_before_gains_the_new_tables_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as raw:
        raw.executescript(f"{_SCHEMA} PRAGMA user_version=1;")
        raw.execute("INSERT INTO memos VALUES (?, 'kept')", (TREE.hex,))
    raw.close()
    database = Database(path)
    assert database.memo(TREE) == "kept"
    with database.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FROM steps").fetchone() == (0,)
        assert cursor.execute("PRAGMA user_version").fetchone() == (4,)
    database.close()


def test_a_full_disk_is_told_as_one(database: Database) -> None:
    database.set_memo(TREE, "a")
    with database.cursor() as cursor:
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count={pages + 1}")
    with pytest.raises(OSError, match="full") as caught:
        database.set_memo(TREE, "x" * 1_000_000)
    assert caught.value.errno == errno.ENOSPC
    assert database.memo(TREE) == "a"


def test_threads_share_one_database(database: Database) -> None:
    def work(own: int) -> None:
        for index in range(20):
            add(database, replace(ENTRY, resolved=sha256(b"%d" % index)), sha256(b"%d %d" % (own, index)))
            database.add_tree(sha256(b"tree %d" % index), [RESOLVED])

    threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(database.realisations(sha256(b"%d" % index) for index in range(20))) == 20
    assert len(database.resolved_ids(sha256(b"%d %d" % (own, i)) for own in range(4) for i in range(20))) == 80


def test_many_connections_opening_a_new_database_at_once_all_succeed(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def work(own: int, path: Path) -> None:
        database = Database(path)
        start.wait()
        try:
            database.set_memo(sha256(b"%d" % own), "x")
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)
        finally:
            database.close()

    for attempt in range(10):
        path = tmp_path / f"{attempt}.sqlite"
        threads = [threading.Thread(target=work, args=(own, path)) for own in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
