# SPDX-License-Identifier: Apache-2.0
"""Questions to the derivations that a store has realised: closures, names, who gave an output.

Edge: the store's database. Reads alone.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derive.canonical import Digest, Json
from derive.errors import Corrupt
from derive.store.database import Database

_AT_ONCE = 500
_SHAPE = {"builder": str, "build": str, "host": str, "arguments": dict, "inputs": dict}
_ALL = "SELECT id, name, resolved, document FROM derivations"
_BY_TIME = (
    "SELECT d.id, d.name, d.resolved, d.document FROM derivations d LEFT JOIN realisations r ON r.resolved = d.resolved"
    " WHERE {} ORDER BY (SELECT coalesce(max(step), 0) FROM steps s WHERE s.derivation = d.id), r.built_s, d.id"
)
"""Those that a condition holds for, the latest realised last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDerivation:
    """A derivation that was realised here, and the resolved id that it led to. ``document`` is canonical JSON."""

    id: Digest
    name: str
    resolved: Digest
    document: Mapping[str, Json]

    @property
    def host(self) -> str:
        """The platform of its output."""
        return str(self.document["host"])

    @property
    def builder(self) -> str:
        """Builder and version, as the document has them."""
        return str(self.document["builder"])

    def below(self) -> Iterator[Digest]:
        """Yield the derivations that its inputs come from, fetches left out."""
        inputs = self.document["inputs"]
        assert isinstance(inputs, Mapping)
        for value in inputs.values():
            if isinstance(value, Mapping) and "derivation" in value:
                yield Digest(str(value["derivation"]))


def derivations(database: Database, ids: Iterable[Digest]) -> dict[Digest, StoredDerivation]:
    """Return the derivations that are known of these ids."""
    rows = _select(database, f"{_ALL} WHERE id IN", [key.hex for key in ids])
    return {one.id: one for one in map(_derivation, rows)}


def load_closure(
    database: Database, targets: Iterable[Digest], known: Container[Digest] = ()
) -> dict[Digest, StoredDerivation]:
    """Return some derivations and all below them, but the fetches, which are named by hash alone.

    Nothing is asked below what is ``known`` already. A closure may have gaps: a step that was never run here, because
    an equal one had been, has no row.
    """
    found: dict[Digest, StoredDerivation] = {}
    asked: set[Digest] = set()
    level = {key for key in targets if key not in known}
    while level:
        asked |= level
        rows = derivations(database, sorted(level))
        found |= rows
        level = {key for row in rows.values() for key in row.below() if key not in asked and key not in known}
    return found


def by_prefix(database: Database, prefix: str) -> tuple[StoredDerivation, ...]:
    """Return the derivations whose ids begin with some hex digits."""
    return _rows(database, f"{_ALL} WHERE id >= ? AND id < ? ORDER BY id", (prefix, prefix + "g"))


def named(database: Database, name: str) -> tuple[StoredDerivation, ...]:
    """Return the derivations of a name, the latest built last; of those that nobody remembers building, by id."""
    return _rows(database, _BY_TIME.format("d.name = ?"), (name,))


def like(database: Database, builder: str, name: str) -> tuple[StoredDerivation, ...]:
    """Return the fetches, or steps that unpack one, of an artifact's name, whatever its version; latest last.

    Every row is looked at: no index knows what a document says.
    """
    marks = f'"builder":"{builder}/', f'"name":{json.dumps(name, ensure_ascii=False)}'
    return _rows(database, _BY_TIME.format("instr(d.document, ?) AND instr(d.document, ?)"), marks)


def of_builder(database: Database, builder: str) -> tuple[StoredDerivation, ...]:
    """Return the derivations of a builder, whatever its version; latest last."""
    return _rows(database, _BY_TIME.format("instr(d.document, ?)"), (f'"builder":"{builder}/',))


def globbed(database: Database, pattern: str) -> tuple[StoredDerivation, ...]:
    """Return the derivations whose names fit a pattern of SQLite's GLOB, latest last."""
    return _rows(database, _BY_TIME.format("d.name GLOB ?"), (pattern,))


def fetches(database: Database, hashes: Iterable[str], names: Iterable[str] = ()) -> dict[str, StoredDerivation]:
    """Return the latest fetch that is known for each of some hashes in hex.

    ``names`` are those that the fetches probably have: what none of them is, is looked for in every row.
    """
    found: dict[str, StoredDerivation] = {}
    wanted = set(hashes)
    for row in _select(database, f"{_ALL} WHERE name IN", sorted(set(names))):
        _take(_derivation(row), wanted, found)
    missing = wanted - found.keys()
    if missing:
        for fetch in _rows(database, _BY_TIME.format("instr(d.document, ?)"), ('"builder":"fetch-',)):
            _take(fetch, missing, found)
    return found


def outputs(database: Database, rows: Iterable[StoredDerivation]) -> dict[Digest, dict[str, str]]:
    """Return what derivations gave, by id: output names to ``nar:`` or ``flat:`` digests."""
    known = list(rows)
    sql = "SELECT resolved, outputs FROM realisations WHERE resolved IN"
    realised = dict(_select(database, sql, [row.resolved.hex for row in known]))
    return {row.id: json.loads(realised[row.resolved.hex]) for row in known if row.resolved.hex in realised}


def givers(database: Database, output: Digest) -> tuple[StoredDerivation, ...]:
    """Return the derivations that gave an output with this digest, whether it is still there or not; latest last."""
    where = "r.outputs IS NOT NULL AND instr(r.outputs, ?)"
    return _rows(database, _BY_TIME.format(where), (output.hex,))


def run_target(database: Database, run: int) -> tuple[Digest, str, str] | None:
    """Return what a run was asked for: its derivation id, name and platform."""
    with database.cursor() as cursor:
        row = cursor.execute("SELECT target, name, host FROM runs WHERE run = ?", (run,)).fetchone()
    return None if row is None else (Digest(row[0]), row[1], row[2])


def outputs_like(database: Database, prefix: str) -> frozenset[Digest]:
    """Return the outputs of all that was ever realised here whose digests begin with some hex digits."""
    sql = "SELECT outputs FROM realisations WHERE instr(outputs, ?)"
    with database.cursor() as cursor:
        rows = cursor.execute(sql, (f":{prefix}",)).fetchall()
    texts = {text.rpartition(":")[2] for row in rows for text in json.loads(row[0]).values()}
    return frozenset(Digest(text) for text in texts if text.startswith(prefix))


def _take(row: StoredDerivation, wanted: set[str], found: dict[str, StoredDerivation]) -> None:
    arguments = row.document["arguments"]
    if row.builder.startswith("fetch-") and isinstance(arguments, Mapping):
        for key in ("sha256", "nar"):
            given = str(arguments.get(key, "")).rpartition(":")[2]
            if given in wanted:
                found[given] = row


def _select(database: Database, sql: str, keys: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    with database.cursor() as cursor:
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            yield from cursor.execute(f"{sql} ({','.join('?' * len(part))})", part).fetchall()


def _rows(database: Database, sql: str, values: Sequence[object]) -> tuple[StoredDerivation, ...]:
    with database.cursor() as cursor:
        found = cursor.execute(sql, values).fetchall()
    return tuple(_derivation(row) for row in found)


def _derivation(row: tuple[Any, ...]) -> StoredDerivation:
    key, name, resolved, text = row
    document = _parsed(text)
    if document is None:
        message = f"the document of derivation {key[:12]} in the store's database is damaged"
        raise Corrupt(message, hint="look what else is wrong: derive store verify")
    return StoredDerivation(id=Digest(key), name=name, resolved=Digest(resolved), document=document)


def _parsed(text: str) -> dict[str, Json] | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    whole = isinstance(document, dict) and all(isinstance(document.get(key), kind) for key, kind in _SHAPE.items())
    return document if whole else None
