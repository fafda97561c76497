# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.errors import HostRefuses
from derive.store.database import Database
from derive.store.local import LocalStore
from derive.store.readonly import ReadOnlyDatabase

ROOT = [("image", "a", sha256(b"a"))]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "derive.sqlite"
    database = Database(path)
    database.set_root("image", "a", sha256(b"a"))
    database.close()
    return path


def test_a_closed_database_is_read_and_nothing_is_written_beside_it(written: Path) -> None:
    database = ReadOnlyDatabase(written)
    assert database.roots() == ROOT
    with pytest.raises(HostRefuses, match="cannot be written"):
        database.set_root("image", "b", sha256(b"b"))
    database.close()


def test_rows_that_only_the_log_holds_are_seen(written: Path, tmp_path: Path) -> None:
    owner = Database(written)
    owner.set_root("image", "b", sha256(b"b"))
    place = tmp_path / "copy"
    place.mkdir()
    for suffix in ("", "-wal"):  # as a killed process leaves it, on a medium that cannot be written
        shutil.copy(f"{written}{suffix}", place)
    owner.close()
    database = ReadOnlyDatabase(place / "derive.sqlite")
    assert [name for _, name, _ in database.roots()] == ["a", "b"]
    database.close()


@pytest.mark.parametrize(
    "earlier",
    [
        "DROP TABLE runs; DROP TABLE steps; DROP TABLE sources; PRAGMA user_version=1;",
        "DROP TABLE substitutions; DROP TABLE cache_claims; DROP TABLE cache_entries; PRAGMA user_version=2;",
    ],
)
def test_a_database_of_an_earlier_version_is_read_from_a_copy_of_this_one(written: Path, earlier: str) -> None:
    with closing(sqlite3.connect(written)) as connection:
        connection.executescript(earlier)
    before = written.read_bytes()
    database = ReadOnlyDatabase(written)
    assert database.roots() == ROOT
    with database.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FROM steps").fetchone() == (0,)
        assert cursor.execute("SELECT count(*) FROM substitutions").fetchone() == (0,)
    database.close()
    assert written.read_bytes() == before


def test_a_store_without_a_database_reads_as_one_that_knows_nothing(tmp_path: Path) -> None:
    database = ReadOnlyDatabase(tmp_path / "derive.sqlite")
    assert database.roots() == []
    database.close()
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_written_opens_and_refuses_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalStore(tmp_path / "store") as store, store.blob_writer() as writer:
        writer.write(b"text")
        digest = writer.commit()
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and real(path, mode))
    with LocalStore(tmp_path / "store") as store:
        assert store.read_only
        store.protect([digest])
        assert store.has_blob(digest)
        with pytest.raises(HostRefuses, match="the store cannot be written"), store.blob_writer() as writer:
            writer.write(b"x" * (1 << 20))
        with pytest.raises(HostRefuses, match="the store cannot be written"), store.locked("x"):
            pass
