# SPDX-License-Identifier: Apache-2.0
"""What is known of caches here: how far each key's log was read, what cannot be right, and what came from where.

Edge: the store's database.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from derive.cache import rows
from derive.cache.chain import Alarm
from derive.cache.config import CacheConfig
from derive.cache.entry import Head
from derive.cache.vouching import Said, contradictions
from derive.canonical import Digest, Json
from derive.store.local import LocalStore
from derive.trust.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatus:
    """A key's log in one cache: the name that the project has for the key, and what its word is worth.

    ``worth``: ``counts``, ``ended`` or ``unknown``.
    """

    key: Digest
    name: str
    worth: str
    head: Head
    claims: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatus:
    """One cache: when its logs were read (None: never), its logs by key, and the alarms that stand."""

    config: CacheConfig
    place: rows.Place | None
    logs: tuple[LogStatus, ...]
    alarms: tuple[Alarm, ...]

    def document(self, names: Mapping[Digest, str]) -> dict[str, Json]:
        """Return the status as part of a record."""
        return {
            "name": self.config.name,
            "place": self.config.place,
            "read_s": None if self.place is None else self.place.read_s,
            "rate_bytes_per_s": None if self.place is None or self.place.rate is None else round(self.place.rate),
            "logs": [
                {
                    "key": str(one.key),
                    "name": one.name,
                    "worth": one.worth,
                    "entries": one.head.sequence,
                    "head": str(one.head.digest),
                    "claims": one.claims,
                }
                for one in self.logs
            ],
            "alarms": [
                {"key": str(one.key), "name": names.get(one.key, ""), "what": one.what, "detail": one.detail}
                for one in self.alarms
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two things that are said of one step: who says what. ``here`` is what this machine built, None where nothing."""

    name: str
    resolved: Digest
    said: tuple[tuple[str, Mapping[str, str]], ...]

    def document(self) -> dict[str, Json]:
        """Return the conflict as part of a record."""
        said: list[Json] = [{"who": who, "outputs": dict(outputs)} for who, outputs in self.said]
        return {"name": self.name, "resolved": str(self.resolved), "said": said}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """All caches; conflicts between keys that count, or with what was built here; and what came from elsewhere.

    ``came`` counts the realisations that came from caches, ``ended`` those of them whose signers count no longer.
    """

    caches: tuple[CacheStatus, ...]
    conflicts: tuple[Conflict, ...]
    came: int
    ended: int

    @property
    def is_sound(self) -> bool:
        """Say whether nothing stands that cannot be right."""
        return not self.conflicts and not any(one.alarms for one in self.caches)


def cache_status(
    store: LocalStore, caches: Sequence[CacheConfig], policy: Policy | None, revoked: Collection[Digest]
) -> Status:
    """Gather what is known; no cache is asked."""
    database = store.database
    keys = {} if policy is None else {key.id: name for name, key in policy.keys.items()}
    gone = frozenset(revoked) | (frozenset() if policy is None else policy.revoked)
    counting = {key: name for key, name in keys.items() if key not in gone}
    found = []
    for config in caches:
        counts = rows.count_claims(database, config.place)
        logs = tuple(
            LogStatus(
                key=key,
                name=keys.get(key, ""),
                worth="counts" if key in counting else "ended" if key in gone else "unknown",
                head=head,
                claims=counts.get(key, 0),
            )
            for key, head in sorted(rows.heads(database, config.place).items(), key=lambda one: keys.get(one[0], "~"))
        )
        place = rows.place_of(database, config.place)
        found.append(CacheStatus(config=config, place=place, logs=logs, alarms=rows.alarms(database, config.place)))
    said = rows.all_claims(database, {one.place: one.name for one in caches}, counting)
    came = rows.substitutions(database)
    ended = sum(any(key not in counting for key in one.signers.values()) for one in came.values())
    return Status(
        caches=tuple(found),
        conflicts=_conflicts(store, said, counting, came),
        came=len(came),
        ended=ended if policy is not None else 0,
    )


def _conflicts(
    store: LocalStore, said: Sequence[Said], names: Mapping[Digest, str], came: Collection[Digest]
) -> tuple[Conflict, ...]:
    groups = {group[0].resolved: group for group in contradictions(said)}
    own = store.database.realisations({one.resolved for one in said})
    by_id: dict[Digest, list[Said]] = {}
    for one in said:
        by_id.setdefault(one.resolved, []).append(one)
    for resolved, row in own.items():
        if resolved not in came and any(_texts(one) != dict(row.outputs) for one in by_id[resolved]):
            groups[resolved] = tuple(by_id[resolved])
    found = []
    for resolved, group in sorted(groups.items()):
        lines = sorted({(names[one.key], tuple(sorted(_texts(one).items()))) for one in group})
        pairs = [(who, dict(outputs)) for who, outputs in lines]
        if resolved in own and resolved not in came:
            pairs.insert(0, ("this machine", dict(own[resolved].outputs)))
        found.append(Conflict(name=group[0].name, resolved=resolved, said=tuple(pairs)))
    return tuple(found)


def _texts(one: Said) -> dict[str, str]:
    return {name: str(output) for name, output in one.outputs.items()}
