# SPDX-License-Identifier: Apache-2.0
"""What a store remembers of caches: entries of logs, claims, alarms, and what came from where.

Edge: the store's database.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from derive.cache.chain import Alarm, Shown
from derive.cache.entry import Entry, Head
from derive.cache.vouching import Said
from derive.canonical import Digest
from derive.derivations.model import parse_output
from derive.store.database import Database

_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitution:
    """From which cache a realisation came, and the ids of the keys that vouched for it then, by name."""

    resolved: Digest
    cache: str
    signers: Mapping[str, Digest]
    came_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """When a cache's logs were read last, and how quickly it served: bytes over nanoseconds of all transfers so far."""

    read_s: int
    moved_bytes: int
    moved_ns: int

    @property
    def rate(self) -> float | None:
        """Bytes per second; None before enough was moved to tell."""
        return self.moved_bytes * 1e9 / self.moved_ns if self.moved_bytes >= 1 << 20 and self.moved_ns else None


def head(database: Database, place: str, key: Digest) -> Head | None:
    """Return the last entry that was seen of a key's log."""
    sql = "SELECT log, sequence, digest FROM cache_entries WHERE place = ? AND key = ? ORDER BY sequence DESC LIMIT 1"
    with database.cursor() as cursor:
        row = cursor.execute(sql, (place, key.hex)).fetchone()
    return None if row is None else Head(log=row[0], sequence=row[1], digest=Digest(row[2]))


def heads(database: Database, place: str) -> dict[Digest, Head]:
    """Return the last entry seen of each log of a place."""
    sql = "SELECT key, log, max(sequence), digest FROM cache_entries WHERE place = ? GROUP BY key"
    with database.cursor() as cursor:
        rows = cursor.execute(sql, (place,)).fetchall()
    return {Digest(key): Head(log=log, sequence=number, digest=Digest(text)) for key, log, number, text in rows}


def shown(database: Database, place: str, keys: Iterable[Digest]) -> dict[Digest, Shown]:
    """Return what is known of logs: all their digests by number."""
    found: dict[Digest, Shown] = {}
    with database.cursor() as cursor:
        for key in keys:
            sql = "SELECT sequence, digest, log FROM cache_entries WHERE place = ? AND key = ? ORDER BY sequence"
            rows = cursor.execute(sql, (place, key.hex)).fetchall()
            if rows:
                digests = {number: Digest(text) for number, text, _ in rows}
                found[key] = Shown(log=rows[-1][2], digests=digests)
    return found


def unmatched(database: Database, place: str, keys: Collection[Digest]) -> dict[Digest, dict[Digest, set[Head]]]:
    """Return what entries of some keys say that they saw of these keys' logs, and that is not kept so, by signer.

    What fits is most of it, and is left out before it becomes anything but text: a log has thousands of entries.
    """
    wanted = {key.hex for key in keys}
    with database.cursor() as cursor:
        sql = "SELECT key, log, sequence, digest, seen FROM cache_entries WHERE place = ?"
        rows = cursor.execute(sql, (place,)).fetchall()
    kept = {row[:4] for row in rows}
    found: dict[Digest, dict[Digest, set[Head]]] = {}
    for witness, _, _, _, text in rows:
        if witness not in wanted:
            continue
        for key, head in json.loads(text).items():
            if key in wanted and (key, head["log"], head["sequence"], head["head"]) not in kept:
                said = Head(log=head["log"], sequence=head["sequence"], digest=Digest(head["head"]))
                found.setdefault(Digest(witness), {}).setdefault(Digest(key), set()).add(said)
    return found


def add_entries(database: Database, place: str, key: Digest, entries: Sequence[tuple[Digest, Entry]]) -> None:
    """Keep entries, with their digests, and what they claim."""
    with database.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        for digest, entry in entries:
            seen = {
                one.hex: {"log": head.log, "sequence": head.sequence, "head": head.digest.hex}
                for one, head in entry.seen.items()
            }
            row = (place, key.hex, entry.sequence, digest.hex, entry.log, entry.made_s, json.dumps(seen))
            cursor.execute("INSERT OR IGNORE INTO cache_entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            rows = []
            for claim in entry.claims:
                cost = entry.costs.get(claim.resolved)
                outputs = json.dumps({name: str(value) for name, value in claim.outputs.items()}, sort_keys=True)
                about = ("", 0, 0) if cost is None else (cost.name, cost.size_bytes, cost.duration_ns)
                rows.append((place, key.hex, claim.resolved.hex, outputs, claim.builder, *about))
            cursor.executemany("INSERT OR REPLACE INTO cache_claims VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        cursor.execute("COMMIT")


def claims(
    database: Database, places: Mapping[str, str], keys: Collection[Digest], resolved: Iterable[Digest]
) -> dict[Digest, list[Said]]:
    """Return what keys say of resolved ids, by id; ``places`` maps places to the names of caches."""
    wanted = [one.hex for one in resolved]
    found: dict[Digest, list[Said]] = {}
    with database.cursor() as cursor:
        for start in range(0, len(wanted), _AT_ONCE):
            part = wanted[start : start + _AT_ONCE]
            marks = ",".join("?" * len(part))
            sql = f"{_CLAIMS} WHERE resolved IN ({marks})"
            for row in cursor.execute(sql, part).fetchall():
                if row[0] in places and Digest(row[1]) in keys:
                    found.setdefault(Digest(row[2]), []).append(_said(row, places[row[0]]))
    return found


def all_claims(database: Database, places: Mapping[str, str], keys: Collection[Digest]) -> list[Said]:
    """Return everything that keys say in places."""
    with database.cursor() as cursor:
        rows = cursor.execute(f"{_CLAIMS} ORDER BY resolved").fetchall()
    return [_said(row, places[row[0]]) for row in rows if row[0] in places and Digest(row[1]) in keys]


def claimed(database: Database, place: str, key: Digest, resolved: Iterable[Digest]) -> frozenset[Digest]:
    """Return which resolved ids a key has claimed in a place already."""
    found = claims(database, {place: ""}, {key}, resolved)
    return frozenset(found)


def count_claims(database: Database, place: str) -> dict[Digest, int]:
    """Return how many resolved derivations each key vouches for in a place."""
    sql = "SELECT key, count(DISTINCT resolved) FROM cache_claims WHERE place = ? GROUP BY key"
    with database.cursor() as cursor:
        return {Digest(key): count for key, count in cursor.execute(sql, (place,)).fetchall()}


def raise_alarm(database: Database, place: str, alarm: Alarm, now_s: int) -> None:
    """Keep an alarm until the cache is forgotten."""
    row = (place, alarm.key.hex, alarm.what, json.dumps(alarm.detail), now_s)
    with database.cursor() as cursor:
        cursor.execute("INSERT OR IGNORE INTO cache_alarms VALUES (?, ?, ?, ?, ?)", row)


def alarms(database: Database, place: str) -> tuple[Alarm, ...]:
    """Return the alarms of a place."""
    sql = "SELECT key, what, detail FROM cache_alarms WHERE place = ? ORDER BY found_s, key, what"
    with database.cursor() as cursor:
        rows = cursor.execute(sql, (place,)).fetchall()
    return tuple(Alarm(key=Digest(key), what=what, detail=tuple(json.loads(detail))) for key, what, detail in rows)


def place_of(database: Database, place: str) -> Place | None:
    """Return what is known of a place; None where its logs were never read."""
    sql = "SELECT read_s, moved_bytes, moved_ns FROM cache_places WHERE place = ?"
    with database.cursor() as cursor:
        row = cursor.execute(sql, (place,)).fetchone()
    return None if row is None else Place(read_s=row[0], moved_bytes=row[1], moved_ns=row[2])


def note_read(database: Database, place: str, now_s: int) -> None:
    """Note that a place's logs were read."""
    sql = "INSERT INTO cache_places VALUES (?, ?, 0, 0) ON CONFLICT (place) DO UPDATE SET read_s = excluded.read_s"
    with database.cursor() as cursor:
        cursor.execute(sql, (place, now_s))


def served_rate(database: Database) -> float | None:
    """Return how quickly all caches served together, in bytes per second; None where nobody knows."""
    with database.cursor() as cursor:
        size, duration = cursor.execute("SELECT total(moved_bytes), total(moved_ns) FROM cache_places").fetchone()
    return Place(read_s=0, moved_bytes=int(size), moved_ns=int(duration)).rate


def note_moved(database: Database, place: str, size: int, duration_ns: int) -> None:
    """Note a transfer. What was long ago fades: each new one halves a sum of more than a gigabyte."""
    sql = (
        "INSERT INTO cache_places VALUES (?1, 0, ?2, ?3) ON CONFLICT (place) DO UPDATE SET"
        " moved_ns = CASE WHEN moved_bytes > 1000000000 THEN moved_ns / 2 ELSE moved_ns END + ?3,"
        " moved_bytes = CASE WHEN moved_bytes > 1000000000 THEN moved_bytes / 2 ELSE moved_bytes END + ?2"
    )
    with database.cursor() as cursor:
        cursor.execute(sql, (place, size, duration_ns))


def forget(database: Database, place: str) -> None:
    """Forget all that a place said; what came from it stays, and stays known to have come from it."""
    with database.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        for table in ("cache_entries", "cache_claims", "cache_alarms", "cache_places"):
            cursor.execute(f"DELETE FROM {table} WHERE place = ?", (place,))  # noqa: S608 - ours
        cursor.execute("COMMIT")


def signers_text(signers: Mapping[str, Digest]) -> str:
    """Return the ids of keys, by name, as a row of what came has them."""
    return json.dumps({name: key.hex for name, key in sorted(signers.items())})


def note_substituted(database: Database, one: Substitution) -> None:
    """Note from where a realisation came that is there already."""
    with database.cursor() as cursor:
        row = (one.resolved.hex, one.cache, signers_text(one.signers), one.came_s)
        cursor.execute("INSERT OR REPLACE INTO substitutions VALUES (?, ?, ?, ?)", row)


def drop_substituted(database: Database, resolved: Digest) -> None:
    """Note that a realisation was built here after all."""
    with database.cursor() as cursor:
        cursor.execute("DELETE FROM substitutions WHERE resolved = ?", (resolved.hex,))


def substitutions(database: Database, resolved: Iterable[Digest] | None = None) -> dict[Digest, Substitution]:
    """Return what came from caches: of some resolved ids, or of all."""
    wanted = None if resolved is None else {one.hex for one in resolved}
    found: dict[Digest, Substitution] = {}
    with database.cursor() as cursor:
        for text, cache, signers, came_s in cursor.execute("SELECT * FROM substitutions").fetchall():
            if wanted is None or text in wanted:
                keys = {name: Digest(key) for name, key in json.loads(signers).items()}
                found[Digest(text)] = Substitution(resolved=Digest(text), cache=cache, signers=keys, came_s=came_s)
    return found


_CLAIMS = "SELECT place, key, resolved, outputs, name, size_bytes, duration_ns FROM cache_claims"


def _said(row: tuple[str, str, str, str, str, int, int], cache: str) -> Said:
    _, key, resolved, outputs, name, size, duration = row
    return Said(
        resolved=Digest(resolved),
        key=Digest(key),
        cache=cache,
        outputs={name: parse_output(text) for name, text in json.loads(outputs).items()},
        name=name,
        size_bytes=size,
        duration_ns=duration,
    )


def durations(database: Database) -> dict[str, int]:
    """Return what building steps of a name took, in nanoseconds: the longest that a signer says, or that was here."""
    with database.cursor() as cursor:
        said = cursor.execute("SELECT name, max(duration_ns) FROM cache_claims WHERE duration_ns > 0 GROUP BY name")
        found = {name: int(longest) for name, longest in said.fetchall()}
        own = cursor.execute("SELECT name, max(duration_ns) FROM steps WHERE outcome = 'built' GROUP BY name")
        for name, longest in own.fetchall():
            found[name] = max(found.get(name, 0), int(longest))
    return found
