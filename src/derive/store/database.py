# SPDX-License-Identifier: Apache-2.0
"""The store's database: realisations by resolved id, derivations, the blobs under each tree, roots, memos, history.

Edge: SQLite. Rows are added only after the bytes that they speak of are synced and in place. A power
cut may take back the move into place and leave the row: whoever reads one asks whether its bytes are present.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derive.canonical import Digest
from derive.store.words import settle, settle_equal

_SCHEMA_VERSION = 4
_REFERRER = "referrer"
_PATIENCE_S = 60
_SHARED_MEMORY = 1 << 15  # bytes that SQLite adds at once to its file of shared memory
_SCHEMA = """
CREATE TABLE IF NOT EXISTS realisations (
    resolved TEXT PRIMARY KEY, outputs TEXT NOT NULL, builder TEXT NOT NULL, engine TEXT NOT NULL,
    host TEXT NOT NULL, duration_ns INTEGER NOT NULL, log TEXT NOT NULL, built_s INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS derivations (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, resolved TEXT NOT NULL, document TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tree_blobs (tree TEXT NOT NULL, blob TEXT NOT NULL, PRIMARY KEY (tree, blob)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS roots (
    kind TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS memos (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_HISTORY = """
CREATE TABLE IF NOT EXISTS runs (
    run INTEGER PRIMARY KEY AUTOINCREMENT, target TEXT NOT NULL, name TEXT NOT NULL, host TEXT NOT NULL,
    jobs INTEGER NOT NULL, started_s INTEGER NOT NULL, duration_ns INTEGER, outcome TEXT,
    expected_ns INTEGER, expected_fetch_bytes INTEGER NOT NULL, expected_write_bytes INTEGER
);
CREATE TABLE IF NOT EXISTS steps (
    step INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL, derivation TEXT NOT NULL, resolved TEXT NOT NULL,
    name TEXT NOT NULL, host TEXT NOT NULL, builder TEXT NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
    ended_s INTEGER NOT NULL, duration_ns INTEGER NOT NULL, expected_ns INTEGER, weight_bytes INTEGER NOT NULL,
    written_bytes INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS steps_by_derivation ON steps (derivation);
CREATE INDEX IF NOT EXISTS steps_by_name ON steps (name, host);
CREATE INDEX IF NOT EXISTS steps_by_builder ON steps (builder);
CREATE TABLE IF NOT EXISTS sources (
    digest TEXT NOT NULL, place TEXT NOT NULL, fetched_s INTEGER NOT NULL, PRIMARY KEY (digest, place)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS derivations_by_name ON derivations (name);
CREATE INDEX IF NOT EXISTS derivations_by_resolved ON derivations (resolved);
"""
_BEYOND = """
CREATE TABLE IF NOT EXISTS substitutions (
    resolved TEXT PRIMARY KEY, cache TEXT NOT NULL, signers TEXT NOT NULL, came_s INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cache_places (
    place TEXT PRIMARY KEY, read_s INTEGER NOT NULL, moved_bytes INTEGER NOT NULL, moved_ns INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cache_entries (
    place TEXT NOT NULL, key TEXT NOT NULL, sequence INTEGER NOT NULL, digest TEXT NOT NULL, log TEXT NOT NULL,
    made_s INTEGER NOT NULL, seen TEXT NOT NULL, PRIMARY KEY (place, key, sequence)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cache_claims (
    place TEXT NOT NULL, key TEXT NOT NULL, resolved TEXT NOT NULL, outputs TEXT NOT NULL, builder TEXT NOT NULL,
    name TEXT NOT NULL, size_bytes INTEGER NOT NULL, duration_ns INTEGER NOT NULL,
    PRIMARY KEY (resolved, key, place, outputs)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS workers (resolved TEXT PRIMARY KEY, facts TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS step_places (step INTEGER PRIMARY KEY, executor TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cache_alarms (
    place TEXT NOT NULL, key TEXT NOT NULL, what TEXT NOT NULL, detail TEXT NOT NULL, found_s INTEGER NOT NULL,
    PRIMARY KEY (place, key, what)
) WITHOUT ROWID;
"""
"""What a store knows of other machines: what they vouch for, and what came from them."""
_WORDS = """
CREATE TABLE IF NOT EXISTS words (
    derivation TEXT PRIMARY KEY, name TEXT NOT NULL, resolved TEXT NOT NULL, outputs TEXT NOT NULL,
    signers TEXT NOT NULL, document TEXT NOT NULL
) WITHOUT ROWID;
"""
_MIGRATIONS = {1: _HISTORY, 2: _BEYOND, 3: _WORDS}
"""What brings a database of an earlier version to the next one: rows are added to, never lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Realisation:
    """What building one resolved derivation gave.

    ``outputs`` maps output names to ``nar:sha256:<hex>`` or ``flat:sha256:<hex>``; ``log`` is the log's file name
    inside the store; ``duration_ns`` wall time; ``built_s`` seconds since 1970, for people only.
    """

    resolved: Digest
    outputs: Mapping[str, str]
    builder: str
    engine: str
    host: str
    duration_ns: int
    log: str
    built_s: int


class Database:
    """One SQLite file in WAL mode, safe for concurrent processes and threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    def realisation(self, resolved: Digest) -> Realisation | None:
        """Return the realisation of a resolved id, or None."""
        return next(iter(self.realisations([resolved]).values()), None)

    def realisations(self, wanted: Iterable[Digest]) -> dict[Digest, Realisation]:
        """Return the realisations known of the wanted resolved ids."""
        rows = self._select_in("SELECT * FROM realisations WHERE resolved IN", [d.hex for d in wanted])
        found = {}
        for resolved, outputs, builder, engine, host, duration, log, built in rows:
            digest = Digest(resolved)
            found[digest] = Realisation(
                resolved=digest,
                outputs=json.loads(outputs),
                builder=builder,
                engine=engine,
                host=host,
                duration_ns=duration,
                log=log,
                built_s=built,
            )
        return found

    def resolved_ids(self, derivations: Iterable[Digest]) -> dict[Digest, Digest]:
        """Return the resolved id of each derivation that was realised before."""
        rows = self._select_in("SELECT id, resolved FROM derivations WHERE id IN", [d.hex for d in derivations])
        return {Digest(key): Digest(value) for key, value in rows}

    def find_derivations(self, name_or_prefix: str) -> list[tuple[str, Digest, Digest, str]]:
        """Return (name, id, resolved id, document) of derivations by exact name or by id prefix of 12 or more hex."""
        sql = (
            "SELECT name, id, resolved, document FROM derivations"
            " WHERE name = :text OR (length(:text) >= 12 AND substr(id, 1, length(:text)) = :text)"
        )
        with self.cursor() as cursor:
            rows = cursor.execute(sql, {"text": name_or_prefix}).fetchall()
        return [(name, Digest(key), Digest(resolved), document) for name, key, resolved, document in rows]

    def add_realisation(self, entry: Realisation, derivation: Digest, name: str, document: bytes) -> Realisation:
        """Keep a realisation and the derivation that led to it. The first realisation of a resolved id stands."""
        with self.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            self._add(cursor, entry, derivation, name, document)
            cursor.execute("COMMIT")
        stands = self.realisation(entry.resolved)
        return stands if stands is not None else entry

    def replace_realisation(
        self, entry: Realisation, derivation: Digest, name: str, document: bytes, came: tuple[str, str] | None = None
    ) -> Realisation:
        """Keep a realisation in place of one whose outputs are gone or differ, or that was none.

        What rested on others' word of something else is forgotten. ``came`` are the cache that it came from, and the
        ids of the keys that vouched for it, by name, as JSON; None for what was made here.
        """
        with self.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            settle(cursor, derivation, entry.resolved, entry.outputs)
            cursor.execute("DELETE FROM realisations WHERE resolved = ?", (entry.resolved.hex,))
            if came is not None:
                row = (entry.resolved.hex, *came, entry.built_s)
                cursor.execute("INSERT OR REPLACE INTO substitutions VALUES (?, ?, ?, ?)", row)
            self._add(cursor, entry, derivation, name, document)
            cursor.execute("COMMIT")
        return entry

    def _add(self, cursor: sqlite3.Cursor, entry: Realisation, derivation: Digest, name: str, document: bytes) -> None:
        settle(cursor, derivation, entry.resolved, entry.outputs)
        cursor.execute(
            "INSERT OR IGNORE INTO realisations VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                entry.resolved.hex,
                json.dumps(dict(entry.outputs), sort_keys=True),
                entry.builder,
                entry.engine,
                entry.host,
                entry.duration_ns,
                entry.log,
                entry.built_s,
            ),
        )
        self._map(cursor, derivation, name, entry.resolved, document)

    def map_derivation(self, derivation: Digest, name: str, resolved: Digest, document: bytes) -> None:
        """Remember that a derivation resolves to an id that was realised already (early cutoff)."""
        with self.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            settle_equal(cursor, derivation, resolved)
            self._map(cursor, derivation, name, resolved, document)
            cursor.execute("COMMIT")

    def tree_blobs(self, tree: Digest) -> list[Digest]:
        """Return the blobs that a tree's contents lie in; empty for a tree without contents or not known."""
        with self.cursor() as cursor:
            rows = cursor.execute("SELECT blob FROM tree_blobs WHERE tree = ?", (tree.hex,)).fetchall()
        return [Digest(row[0]) for row in rows]

    def add_tree(self, tree: Digest, blobs: Iterable[Digest]) -> None:
        """Remember the blobs under a tree."""
        with self.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            cursor.execute("DELETE FROM tree_blobs WHERE tree = ?", (tree.hex,))
            cursor.executemany("INSERT INTO tree_blobs VALUES (?, ?)", [(tree.hex, blob.hex) for blob in blobs])
            cursor.execute("COMMIT")

    def set_root(self, kind: str, name: str, digest: Digest) -> None:
        """Keep a digest, and all under it, from being collected."""
        with self.cursor() as cursor:
            cursor.execute("INSERT OR REPLACE INTO roots VALUES (?, ?, ?)", (kind, name, digest.hex))

    def roots(self) -> list[tuple[str, str, Digest]]:
        """Return (kind, name, digest) of every root, sorted."""
        with self.cursor() as cursor:
            sql = "SELECT kind, name, digest FROM roots WHERE kind != ? ORDER BY kind, name"
            rows = cursor.execute(sql, (_REFERRER,)).fetchall()
        return [(kind, name, Digest(digest)) for kind, name, digest in rows]

    def add_referrer(self, subject: Digest, manifest: Digest) -> None:
        """Keep a manifest from being collected for as long as the one that it refers to is kept."""
        self.set_root(_REFERRER, f"{subject.hex} {manifest.hex}", manifest)

    def remove_referrer(self, subject: Digest, manifest: Digest) -> None:
        """Let a manifest be collected; absence is no error."""
        with self.cursor() as cursor:
            name = f"{subject.hex} {manifest.hex}"
            cursor.execute("DELETE FROM roots WHERE kind = ? AND name = ?", (_REFERRER, name))

    def referrers(self) -> dict[Digest, tuple[Digest, ...]]:
        """Return what is known to refer to each manifest, sorted."""
        with self.cursor() as cursor:
            names = cursor.execute("SELECT name FROM roots WHERE kind = ? ORDER BY name", (_REFERRER,)).fetchall()
        found: dict[Digest, tuple[Digest, ...]] = {}
        for (name,) in names:
            subject, _, manifest = name.partition(" ")
            found[Digest(subject)] = (*found.get(Digest(subject), ()), Digest(manifest))
        return found

    def has_substituted(self) -> bool:
        """Say whether anything here came from another machine by a cache, or was found by others' word."""
        sql = "SELECT 1 FROM substitutions UNION ALL SELECT 1 FROM words LIMIT 1"
        with self.cursor() as cursor:
            return cursor.execute(sql).fetchone() is not None

    def memo(self, key: Digest) -> str | None:
        """Return what was remembered under a key, or None."""
        with self.cursor() as cursor:
            row = cursor.execute("SELECT value FROM memos WHERE key = ?", (key.hex,)).fetchone()
        return None if row is None else str(row[0])

    def set_memo(self, key: Digest, value: str) -> None:
        """Remember a value that a pure function gave."""
        with self.cursor() as cursor:
            cursor.execute("INSERT OR REPLACE INTO memos VALUES (?, ?)", (key.hex, value))

    def worker(self, resolved: Digest) -> dict[str, str]:
        """Return what is known of the worker that ran a step elsewhere; empty for one that this machine ran."""
        with self.cursor() as cursor:
            row = cursor.execute("SELECT facts FROM workers WHERE resolved = ?", (resolved.hex,)).fetchone()
        return {} if row is None else json.loads(row[0])

    def set_worker(self, resolved: Digest, facts: Mapping[str, str]) -> None:
        """Remember what ran a step; no facts where this machine did."""
        with self.cursor() as cursor:
            cursor.execute("DELETE FROM workers WHERE resolved = ?", (resolved.hex,))
            if facts:
                text = json.dumps(dict(facts), sort_keys=True)
                cursor.execute("INSERT OR REPLACE INTO workers VALUES (?, ?)", (resolved.hex, text))

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @staticmethod
    def _map(cursor: sqlite3.Cursor, derivation: Digest, name: str, resolved: Digest, document: bytes) -> None:
        values = (derivation.hex, name, resolved.hex, document.decode())
        cursor.execute("INSERT OR REPLACE INTO derivations VALUES (?, ?, ?, ?)", values)

    def _select_in(self, sql: str, keys: list[str]) -> Iterator[tuple[Any, ...]]:
        step = 500
        with self.cursor() as cursor:
            for start in range(0, len(keys), step):
                part = keys[start : start + step]
                yield from cursor.execute(f"{sql} ({','.join('?' * len(part))})", part).fetchall()

    @contextmanager
    def cursor(self) -> Iterator[sqlite3.Cursor]:
        """Lend a cursor, outside any transaction; what fails inside rolls back, and is told as a person's error."""
        with self._guard:
            try:
                if self._connection is None:
                    self._connection = self._open()
                with closing(self._connection.cursor()) as cursor:
                    yield cursor
            except BaseException as error:
                if self._connection is not None and self._connection.in_transaction:
                    self._connection.rollback()
                refusal = _refusal(error, self._path) if isinstance(error, sqlite3.Error) else None
                if refusal is not None:
                    raise refusal from error
                raise

    def _open(self) -> sqlite3.Connection:
        try:
            connection = _connect(self._path)
        except sqlite3.OperationalError as error:
            if not _is_disk_full(error, self._path):
                raise
            # Alone, SQLite needs no file of shared memory, which a full disk has no room for: what is there is read.
            connection = _connect(self._path, "PRAGMA locking_mode=EXCLUSIVE")
        # A power cut may take the last rows: their outputs are then built or found again.
        connection.execute("PRAGMA synchronous=NORMAL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            tables = _SCHEMA + _HISTORY + _BEYOND + _WORDS
            connection.executescript(f"BEGIN IMMEDIATE; {tables} PRAGMA user_version={_SCHEMA_VERSION}; COMMIT;")
        elif version in _MIGRATIONS:
            try:
                _migrate(connection, version)
            except sqlite3.OperationalError as error:
                if not _is_unwritable(error, self._path):
                    raise
                return _migrated_copy(connection, version)
        elif version != _SCHEMA_VERSION:
            from derive.errors import HostRefuses, expected_got

            connection.close()
            raise HostRefuses(
                f"the store's database {self._path} was written by another version of derive",
                detail=expected_got(f"version {_SCHEMA_VERSION}", f"version {version}"),
                hint="use another --store folder, or the derive that made this one",
            )
        return connection


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    for step in range(version, _SCHEMA_VERSION):
        # Another process may have done all of it meanwhile: it is then done once more, to no effect.
        connection.executescript(f"BEGIN IMMEDIATE; {_MIGRATIONS[step]} PRAGMA user_version={step + 1}; COMMIT;")


def _migrated_copy(connection: sqlite3.Connection, version: int) -> sqlite3.Connection:
    """Return an earlier version's database, which cannot be written, in memory: it is read, and no more than that."""
    if connection.in_transaction:
        connection.rollback()
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.backup(copy)
    connection.close()
    _migrate(copy, version)
    copy.execute("PRAGMA query_only=ON")
    return copy


def _is_unwritable(error: sqlite3.Error, path: Path) -> bool:
    """Say whether a database that can be read could not be written."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM) or _is_disk_full(error, path)


def _connect(path: Path, *before: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False)
    try:
        for statement in before:
            connection.execute(statement)
        _begin_wal(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _begin_wal(connection: sqlite3.Connection) -> None:
    """Switch a database to WAL. Where several processes make one, SQLite itself does not wait here for the others."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _is_disk_full(error: sqlite3.Error, path: Path) -> bool:
    """Say whether SQLite failed for want of room, which of some of its files it tells as a failing disk."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code != sqlite3.SQLITE_IOERR:
        return code == sqlite3.SQLITE_FULL
    from derive.store.space import free_bytes

    return free_bytes(path.parent) < _SHARED_MEMORY


def _refusal(error: sqlite3.Error, path: Path) -> Exception | None:
    """Return what one of SQLite's errors is to a person; a full disk is the system's error, and others are faults."""
    from derive.errors import Corrupt, HostRefuses, Unavailable

    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without what SQLite adds to it
    if _is_disk_full(error, path):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        hint = "name a store that you can write to: --store, or DERIVE_STORE"
        return HostRefuses(f"the store cannot be written: {error}", where=str(path), hint=hint)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        hint = "move it and its -wal and -shm out of the store: what it knows is found or built again"
        return Corrupt(f"the store's database is damaged: {error}", where=str(path), hint=hint)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        hint = "look for another derive that stands still"
        return Unavailable(f"another process holds the database for {_PATIENCE_S} s", where=str(path), hint=hint)
    return HostRefuses("the store's disk fails", where=str(path)) if code == sqlite3.SQLITE_IOERR else None
