# SPDX-License-Identifier: Apache-2.0
"""Reads the logs of keys from a registry into the store's database, and appends to one's own.

Edge: a registry, the store's database, randomness for the name of a new log.

Only what is new is read, so that whoever plans asks no network. What does not follow what was seen before is an alarm,
which is kept: see :mod:`derive.cache.chain`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from derive.cache import rows
from derive.cache.artifact import EMPTY, EMPTY_DESCRIPTOR, ENTRY_TYPE, LogPiece, log_tag, piece_of, read_piece
from derive.cache.chain import Alarm, compare_seen, follow, require_chain, withheld
from derive.cache.entry import LARGEST, Cost, Entry, Head, read_entry
from derive.cache.sending import Held
from derive.canonical import Digest, sha256
from derive.errors import Corrupt, Unavailable
from derive.images.oci import MANIFEST_TYPE, Descriptor
from derive.net.progress import Quiet
from derive.oci.parallel import at_once
from derive.oci.remote import Remote
from derive.oci.upload import upload
from derive.store.database import Database
from derive.trust.keys import PublicKey, SigningKey
from derive.trust.statement import Claim

_AGAIN = 3


@dataclass(frozen=True, slots=True)
class _Read:
    """What one log shows: new entries with their digests, or an alarm; the newest piece as it stands there."""

    entries: tuple[tuple[Digest, Entry], ...] = ()
    alarm: Alarm | None = None
    piece: LogPiece | None = None
    data: bytes | None = None


def refresh(
    database: Database, place: str, remote: Remote, keys: Mapping[str, PublicKey], now_s: int
) -> tuple[Alarm, ...]:
    """Read what is new in the logs of keys (by name), and return every alarm of the place, old ones too.

    Raises:
        Failure: when the registry does not answer.
        Corrupt: when what it shows is no log of that key.
    """
    found = _read_all(database, place, remote, keys, now_s)
    behind: dict[Digest, tuple[str, Head]] = {}
    by_id = {key.id: name for name, key in keys.items()}
    shown = rows.shown(database, place, by_id)
    for name, read in found.items():
        for _, entry in read.entries:
            said = {key: head for key, head in entry.seen.items() if key in by_id}
            alarms, late = compare_seen(name, said, shown)
            for alarm in alarms:
                rows.raise_alarm(database, place, alarm, now_s)
            behind |= {key: (name, said[key]) for key in late}
    if behind:
        # They may have grown after they were read, and before the witness's own was.
        _read_all(database, place, remote, {by_id[key]: keys[by_id[key]] for key in behind}, now_s)
        shown = rows.shown(database, place, behind)
        for key, (name, head) in behind.items():
            here = shown.get(key)
            if here is None or here.last < head.sequence:
                rows.raise_alarm(database, place, withheld(key, name, head, here), now_s)
            else:
                for alarm in compare_seen(name, {key: head}, shown)[0]:
                    rows.raise_alarm(database, place, alarm, now_s)
    rows.note_read(database, place, now_s)
    return rows.alarms(database, place)


def append(
    database: Database,
    place: str,
    remote: Remote,
    key: SigningKey,
    claims: Sequence[Claim],
    costs: Mapping[Digest, Cost],
    seen: Mapping[Digest, Head],
    now_s: int,
    *,
    aside_s: float = 0.2,
) -> Head:
    """Sign one more entry of a key's log and put it there; the caller holds a lock, and has read the log.

    After ``aside_s`` it is looked at again: no request of a registry changes a tag only if nobody else has.

    Raises:
        Failure: when the registry does not take it.
        Unavailable: when somebody else writes the same key's log.
    """
    public = key.public
    for _ in range(_AGAIN):
        read = _read_one(database, place, remote, public)
        if read.alarm is not None or read.entries:
            rows.add_entries(database, place, public.id, read.entries)
            continue
        entry = _next(rows.head(database, place, public.id), claims, costs, seen, now_s)
        data = entry.signed(key)
        blob = Descriptor(media_type=ENTRY_TYPE, digest=sha256(data), size=len(data))
        piece = LogPiece(first=1, entries=(blob,)) if read.piece is None else read.piece.appended(blob)
        _put_aside(remote, public, read, piece, {blob.digest: data, EMPTY_DESCRIPTOR.digest: EMPTY})
        tag = log_tag(public.id)
        if remote.manifest(tag) != read.data:
            continue
        remote.put_manifest(tag, MANIFEST_TYPE, piece.encoded())
        remote.client.pause(aside_s)
        if remote.manifest(tag) != piece.encoded():
            break
        rows.add_entries(database, place, public.id, [(blob.digest, entry)])
        return Head(log=entry.log, sequence=entry.sequence, digest=blob.digest)
    raise Unavailable(
        "somebody else writes the log of this key at the same time",
        where=place,
        detail=[f"key       {public.id}"],
        hint="a key belongs to one machine: make another (derive key new NAME); then look: derive cache status",
    )


def _next(
    head: Head | None, claims: Sequence[Claim], costs: Mapping[Digest, Cost], seen: Mapping[Digest, Head], now_s: int
) -> Entry:
    """Return the entry that follows a head, or begins a new log."""
    return Entry(
        log=secrets.token_hex(16) if head is None else head.log,
        sequence=1 if head is None else head.sequence + 1,
        previous=None if head is None else head.digest,
        made_s=now_s,
        claims=tuple(claims),
        costs=costs,
        seen=seen,
    )


def _put_aside(remote: Remote, key: PublicKey, read: _Read, piece: LogPiece, blobs: Mapping[Digest, bytes]) -> None:
    """Put what a piece will name, and one that is full under its own tag; the log names neither before it is put."""
    held = Held(blobs)
    for one in (EMPTY_DESCRIPTOR, piece.entries[-1]):
        if not remote.head_blob(one.digest)[0]:
            upload(held, remote, one, Quiet())
    if read.data is not None and read.piece is not None and piece.first != read.piece.first:
        remote.put_manifest(log_tag(key.id, piece_of(read.piece.first)), MANIFEST_TYPE, read.data)


def _read_all(
    database: Database, place: str, remote: Remote, keys: Mapping[str, PublicKey], now_s: int
) -> dict[str, _Read]:
    names = sorted(keys)
    found = dict(zip(names, at_once(remote, lambda n: _read_one(database, place, remote, keys[n]), names), strict=True))
    for name, read in found.items():
        if read.alarm is not None:
            rows.raise_alarm(database, place, read.alarm, now_s)
        elif read.entries:
            rows.add_entries(database, place, keys[name].id, read.entries)
    return found


def _read_one(database: Database, place: str, remote: Remote, key: PublicKey) -> _Read:
    """Read what is new of one log; nothing is kept here."""
    head = rows.head(database, place, key.id)
    data = remote.manifest(log_tag(key.id))
    if data is None:
        return _Read(alarm=follow(key.id, head, ()))
    newest = read_piece(data)
    since = 1 if head is None else head.sequence
    pieces = [*_earlier(remote, key, piece_of(since), piece_of(newest.first)), newest]
    blobs = {number: blob for one in pieces for number, blob in enumerate(one.entries, one.first)}
    alarm = follow(key.id, head, [(number, blob.digest) for number, blob in blobs.items()])
    if alarm is not None:
        _require_signed(remote, key, blobs, since)
        return _Read(alarm=alarm, piece=newest, data=data)
    new = [blob for number, blob in sorted(blobs.items()) if head is None or number > head.sequence]
    entries = at_once(remote, lambda blob: _entry(remote, key, blob), new)
    found = tuple((blob.digest, entry) for blob, entry in zip(new, entries, strict=True))
    require_chain(head, found)
    return _Read(entries=found, piece=newest, data=data)


def _earlier(remote: Remote, key: PublicKey, first: int, newest: int) -> list[LogPiece]:
    found = []
    for number in range(first, newest):
        data = remote.manifest(log_tag(key.id, number))
        if data is None:
            raise Corrupt(f"piece {number} of a log is gone", detail=[f"key       {key.id}"])
        piece = read_piece(data)
        if piece_of(piece.first) != number:
            raise Corrupt(f"piece {number} of a log is another one", detail=[f"key       {key.id}"])
        found.append(piece)
    return found


def _require_signed(remote: Remote, key: PublicKey, blobs: Mapping[int, Descriptor], number: int) -> None:
    """Read what stands where another entry was seen: a registry that makes one up accuses nobody but itself.

    Raises:
        Corrupt: when the key did not sign it.
    """
    if number in blobs and _entry(remote, key, blobs[number]).sequence != number:
        raise Corrupt(f"entry {number} of a log is another one", detail=[f"key       {key.id}"])


def _entry(remote: Remote, key: PublicKey, blob: Descriptor) -> Entry:
    return read_entry(remote.read_blob(blob.digest, LARGEST), key)
