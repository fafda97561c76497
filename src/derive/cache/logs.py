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
from derive.cache.chain import Alarm, compare_seen, follow, is_behind, require_chain, withheld
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
    by_id = {key.id: name for name, key in keys.items()}
    asked: dict[Digest, tuple[str, Head]] = {}
    wanted = keys
    for _ in range(_AGAIN):
        _read_all(database, place, remote, wanted, now_s)
        late = _compare(database, place, by_id, asked, now_s)
        # They may have grown after they were read, and before the witness's own was.
        new = {key: one for key, one in late.items() if asked.get(key) != one}
        if not new:
            break
        asked |= new
        wanted = {by_id[key]: keys[by_id[key]] for key in new}
    rows.note_read(database, place, now_s)
    return rows.alarms(database, place)


def _compare(
    database: Database, place: str, names: Mapping[Digest, str], asked: Mapping[Digest, tuple[str, Head]], now_s: int
) -> dict[Digest, tuple[str, Head]]:
    """Compare all that kept entries say they saw with what is kept of the logs, and keep what is wrong.

    All each time, however old: an earlier comparison may have been cut off, or a key not have been trusted yet.

    Returns:
        For each log that is shown shorter than a witness saw it the highest such head, with the witness. It is an alarm
        once the log was read after that was known: for the heads in ``asked``.
    """
    shown = rows.shown(database, place, names)
    for key, (name, head) in asked.items():
        if is_behind(shown.get(key), head):
            rows.raise_alarm(database, place, withheld(key, name, head, shown.get(key)), now_s)
    late: dict[Digest, tuple[str, Head]] = {}
    for witness, said in sorted(rows.unmatched(database, place, names).items()):
        alarms, behind = compare_seen(names[witness], said, shown)
        for alarm in alarms:
            rows.raise_alarm(database, place, alarm, now_s)
        for key, head in behind.items():
            if key not in late or late[key][1].sequence < head.sequence:
                late[key] = (names[witness], head)
    return late


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


def _read_all(database: Database, place: str, remote: Remote, keys: Mapping[str, PublicKey], now_s: int) -> None:
    """Read what is new in logs, and keep it."""
    names = sorted(keys)
    found = dict(zip(names, at_once(remote, lambda n: _read_one(database, place, remote, keys[n]), names), strict=True))
    for name, read in found.items():
        if read.alarm is not None:
            rows.raise_alarm(database, place, read.alarm, now_s)
        elif read.entries:
            rows.add_entries(database, place, keys[name].id, read.entries)


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
