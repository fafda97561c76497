# SPDX-License-Identifier: Apache-2.0
"""By whose word outputs are believed that came from elsewhere, or never were here, and what rests on them.

Edge: the store's database.

What a step resolves to follows from what its inputs gave. Where others said what an input gave, all that was found
above it rests on their word, whoever built what is above: so a word is kept, and with each change of what is believed
everything above is forgotten in the same transaction. A run that ends in between leaves nothing by which it is given.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.canonical import Digest

if TYPE_CHECKING:
    from derive.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What a derivation gives by the word of keys, whose ids are given, while it was not made or brought here.

    ``document`` is the derivation's own: what rests on what is found by its inputs.
    """

    derivation: Digest
    name: str
    resolved: Digest
    outputs: Mapping[str, str]
    signers: tuple[Digest, ...]
    document: bytes


def words(database: Database) -> dict[Digest, Word]:
    """Return all words that are kept, by derivation."""
    with database.cursor() as cursor:
        rows = cursor.execute("SELECT * FROM words").fetchall()
    return {Digest(row[0]): _word(row) for row in rows}


def keep_words(database: Database, found: Sequence[Word]) -> None:
    """Keep words, in place of what was believed of the same derivations before."""
    with database.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        moved = {word.derivation.hex for word in found if _moves(cursor, word.derivation, word.resolved, word.outputs)}
        _forget_above(cursor, moved)
        rows = [
            (
                word.derivation.hex,
                word.name,
                word.resolved.hex,
                json.dumps(dict(word.outputs), sort_keys=True),
                json.dumps([key.hex for key in word.signers]),
                word.document.decode(),
            )
            for word in found
        ]
        cursor.executemany("INSERT OR REPLACE INTO words VALUES (?, ?, ?, ?, ?, ?)", rows)
        cursor.execute("COMMIT")


def settle(cursor: sqlite3.Cursor, derivation: Digest, resolved: Digest, outputs: Mapping[str, str]) -> None:
    """Note what a derivation gives now that it is here, inside the caller's transaction: no word is needed any more."""
    if _moves(cursor, derivation, resolved, outputs):
        also = cursor.execute("SELECT id FROM derivations WHERE resolved = ?", (resolved.hex,)).fetchall()
        _forget_above(cursor, {derivation.hex, *(key for (key,) in also)})
    cursor.execute("DELETE FROM words WHERE derivation = ?", (derivation.hex,))


def settle_equal(cursor: sqlite3.Cursor, derivation: Digest, resolved: Digest) -> None:
    """Do the same for a derivation that turned out to mean what is here already."""
    if cursor.execute("SELECT 1 FROM words WHERE derivation = ?", (derivation.hex,)).fetchone() is None:
        return
    row = cursor.execute("SELECT outputs FROM realisations WHERE resolved = ?", (resolved.hex,)).fetchone()
    if row is not None:
        settle(cursor, derivation, resolved, json.loads(row[0]))


def _moves(cursor: sqlite3.Cursor, derivation: Digest, resolved: Digest, outputs: Mapping[str, str]) -> bool:
    """Say whether something else was believed by others' word: the latest, or what came under the same resolved id."""
    row = cursor.execute("SELECT outputs FROM words WHERE derivation = ?", (derivation.hex,)).fetchone()
    if row is None:
        sql = "SELECT outputs FROM realisations WHERE resolved = ? AND resolved IN (SELECT resolved FROM substitutions)"
        row = cursor.execute(sql, (resolved.hex,)).fetchone()
    return row is not None and json.loads(row[0]) != dict(outputs)


def _forget_above(cursor: sqlite3.Cursor, moved: set[str]) -> None:
    """Forget to what steps resolve that rest on some, and by what images were recalled.

    What they gave is kept: under the resolved ids of the inputs that they had, it is right.
    """
    if not moved:
        return
    above: dict[str, set[str]] = defaultdict(set)
    sql = "SELECT id, document FROM derivations UNION ALL SELECT derivation, document FROM words"
    for key, document in cursor.execute(sql).fetchall():
        for value in json.loads(document).get("inputs", {}).values():
            if isinstance(value, dict) and "derivation" in value:
                above[value["derivation"]].add(key)
    fallen: set[str] = set()
    level = moved
    while level:
        level = {key for below in level for key in above[below]} - fallen
        fallen |= level
    cursor.executemany("DELETE FROM derivations WHERE id = ?", [(key,) for key in sorted(fallen)])
    cursor.executemany("DELETE FROM words WHERE derivation = ?", [(key,) for key in sorted(fallen)])
    cursor.execute("DELETE FROM memos")


def _word(row: tuple[str, str, str, str, str, str]) -> Word:
    return Word(
        derivation=Digest(row[0]),
        name=row[1],
        resolved=Digest(row[2]),
        outputs=json.loads(row[3]),
        signers=tuple(map(Digest, json.loads(row[4]))),
        document=row[5].encode(),
    )
