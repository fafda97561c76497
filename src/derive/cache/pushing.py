# SPDX-License-Identifier: Apache-2.0
"""What a machine shares: the outputs that it built itself, and one signed entry that says so.

Edge: the store, a registry, the clock.

A machine vouches for nothing that it took from elsewhere: else two keys would agree where one machine built.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.cache import rows
from derive.cache.config import CacheConfig
from derive.cache.entry import MOST_CLAIMS, Cost, Head
from derive.cache.logs import append, refresh
from derive.cache.packing import contents_size
from derive.cache.sending import Sender, Sent
from derive.canonical import Digest
from derive.derivations.model import Derivation, FlatOutput, Output, TreeOutput, closure, parse_output
from derive.errors import CheckFailed
from derive.images.oci import named_blobs
from derive.images.referrers import read_whole
from derive.net.progress import Progress
from derive.oci.parallel import told
from derive.oci.remote import Remote
from derive.store import graph
from derive.store.database import Realisation
from derive.store.local import LocalStore
from derive.trust.keys import PublicKey, SigningKey
from derive.trust.statement import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Shareable:
    """What of some targets may be shared, and how much of them may not, by reason.

    ``images`` are the main outputs of image steps; ``absent`` counts steps whose outputs are gone, or were never
    built; ``foreign`` those that came from elsewhere.
    """

    claims: tuple[Claim, ...]
    costs: Mapping[Digest, Cost]
    images: frozenset[Output]
    absent: int
    foreign: int

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Every output, each once."""
        return tuple(dict.fromkeys(output for claim in self.claims for output in claim.outputs.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedCache:
    """What a push did: what was sent, how many claims are new, and how far the key's log goes now."""

    sent: Sent
    claims: int
    known: int
    head: Head | None


def shareable(store: LocalStore, targets: Sequence[Derivation | Digest], *, sources: bool = False) -> Shareable:
    """Find what was built here of the closures of targets; with ``sources``, what was fetched too."""
    named: dict[Digest, tuple[str, str]] = {}  # resolved id -> name, builder
    absent = 0
    derivations = {one.id: one for target in targets if isinstance(target, Derivation) for one in closure(target)}
    known = store.database.resolved_ids(derivations)
    for key, one in derivations.items():
        if one.fixed is not None and not sources:
            continue
        if key not in known:
            absent += 1
            continue
        named[known[key]] = (one.name, one.builder)
    stored = graph.load_closure(store.database, [one for one in targets if isinstance(one, Digest)])
    for known_step in stored.values():
        if not known_step.builder.startswith("fetch-") or sources:
            named.setdefault(known_step.resolved, (known_step.name, known_step.builder.partition("/")[0]))
    came = rows.substitutions(store.database)
    realised = store.database.realisations(named)
    claims: list[Claim] = []
    costs: dict[Digest, Cost] = {}
    images: set[Output] = set()
    foreign = 0
    for resolved, (name, builder) in named.items():
        row = realised.get(resolved)
        if row is None or not _is_whole(store, row):
            absent += 1
        elif resolved in came or not row.engine:
            foreign += 1
        else:
            outputs = {one: parse_output(text) for one, text in row.outputs.items()}
            claims.append(Claim(resolved=resolved, builder=row.builder, outputs=outputs))
            if builder == "image":
                images.add(outputs["out"])
            size = sum(
                {key: size for one in outputs.values() for key, size in _sizes(store, one, one in images)}.values()
            )
            costs[resolved] = Cost(name=name, size_bytes=size, duration_ns=row.duration_ns)
    return Shareable(claims=tuple(claims), costs=costs, images=frozenset(images), absent=absent, foreign=foreign)


def push(
    store: LocalStore,
    cache: CacheConfig,
    remote: Remote,
    found: Shareable,
    key: SigningKey,
    trusted: Mapping[str, PublicKey],
    progress: Progress,
    count: Callable[[int, int], None],
) -> PushedCache:
    """Send outputs, then sign for them.

    ``trusted`` are the keys that count here, by name: what was seen of their logs is signed along. ``count`` is told
    how many outputs of how many that were not there have come.

    Raises:
        CheckFailed: when one of the logs there cannot be right.
        Unavailable: when the registry fails for too long; what it took stays there.
        Corrupt: when it shows what is no log.
    """
    database, place = store.database, cache.place
    keys = dict(trusted)
    if key.public not in keys.values():
        keys["this key"] = key.public
    with store.locked(f"cache-{key.public.id.hex}"), told(remote, "the outputs could not be pushed"):
        alarms = refresh(database, place, remote, keys, int(time.time()))
        if alarms:
            raise CheckFailed(
                f"cache {cache.name}: {alarms[0].what}",
                detail=[f"key       {alarms[0].key}", *alarms[0].detail],
                hint="derive cache status says more; docs/trust.md says what it means",
            )
        sender = Sender(store=store, remote=remote, progress=progress, count=count)
        sender.send(found.outputs, found.images)
        said = rows.claimed(database, place, key.public.id, (claim.resolved for claim in found.claims))
        new = [claim for claim in found.claims if claim.resolved not in said]
        seen = {one: head for one, head in rows.heads(database, place).items() if one != key.public.id}
        head = rows.head(database, place, key.public.id)
        for start in range(0, len(new), MOST_CLAIMS):
            part = new[start : start + MOST_CLAIMS]
            costs = {claim.resolved: found.costs[claim.resolved] for claim in part}
            head = append(database, place, remote, key, part, costs, seen, int(time.time()))
    return PushedCache(sent=sender.sent, claims=len(new), known=len(said), head=head)


def _is_whole(store: LocalStore, row: Realisation) -> bool:
    outputs = [parse_output(text) for text in row.outputs.values()]
    return all(
        store.has_tree(one.digest) if isinstance(one, TreeOutput) else store.has_blob(one.digest) for one in outputs
    )


def _sizes(store: LocalStore, output: Output, is_image: bool) -> Iterator[tuple[Digest, int]]:
    """Yield an output's contents with their bytes; of an image's manifest, with all that it names."""
    if not isinstance(output, FlatOutput):
        yield output.digest, contents_size(store.listing(output.digest))
        return
    yield output.digest, store.blob_size(output.digest)
    if is_image:
        yield from ((blob.digest, blob.size) for blob in named_blobs(read_whole(store, output.digest)))
