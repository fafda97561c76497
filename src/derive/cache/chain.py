# SPDX-License-Identifier: Apache-2.0
"""Whether what a registry shows of a log follows what was seen of it before, and what others say that they saw.

Core: no IO.

A registry can hide entries, and show different ones to different people. It cannot forge one, and cannot make two
readers who once saw different logs agree again: who saw entry 7 keeps its digest, and signs it into their own log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from derive.cache.entry import Entry, Head
from derive.canonical import Digest
from derive.errors import Corrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A view of a log that cannot be right: whose key's, what is wrong in one line, and the two that do not fit."""

    key: Digest
    what: str
    detail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a registry shows of a log now: its digests by number, as far as they were read."""

    log: str
    digests: Mapping[int, Digest]

    @property
    def last(self) -> int:
        """The number of the last entry."""
        return max(self.digests, default=0)


def follow(key: Digest, head: Head | None, shown: Sequence[tuple[int, Digest]]) -> Alarm | None:
    """Compare what is shown, numbers with digests, to the head that was seen last; None where it goes on from there.

    ``shown`` is all that stands from the head's number on, or everything where that is further back.
    """
    if head is None:
        return None
    last = max((number for number, _ in shown), default=0)
    if last < head.sequence:
        detail = (f"seen      entry {head.sequence}, {head.digest}", f"shown     {last or 'none'}")
        return Alarm(key=key, what="the log goes back: entries that were there are gone", detail=detail)
    there = dict(shown).get(head.sequence)
    if there != head.digest:
        detail = (f"seen      entry {head.sequence}, {head.digest}", f"shown     entry {head.sequence}, {there}")
        return Alarm(key=key, what="the log forks: another entry stands where one was seen", detail=detail)
    return None


def require_chain(head: Head | None, entries: Sequence[tuple[Digest, Entry]]) -> None:
    """Check that entries, each with its digest, follow each other and the head.

    Raises:
        Corrupt: when they do not: the registry put together what was never one log.
    """
    log, sequence, digest = (head.log, head.sequence, head.digest) if head is not None else ("", 0, None)
    for own, entry in entries:
        if log and entry.log != log:
            raise Corrupt(f"entry {entry.sequence} is of another log")
        if entry.sequence != sequence + 1 or entry.previous != digest:
            raise Corrupt(f"entry {entry.sequence} does not follow entry {sequence}")
        log, sequence, digest = entry.log, entry.sequence, own


def compare_seen(
    witness: str, said: Mapping[Digest, Collection[Head]], known: Mapping[Digest, Shown]
) -> tuple[tuple[Alarm, ...], dict[Digest, Head]]:
    """Compare all that a signer ever saw of other logs with what is shown here.

    Returns:
        At most one alarm for each log; and for each log of which the signer saw more than is shown the highest head:
        the log may have grown meanwhile, and is to be read again before that is an alarm.
    """
    alarms: list[Alarm] = []
    behind: dict[Digest, Head] = {}
    for key, heads in sorted(said.items()):
        here = known.get(key)
        other = None if here is None else _other(heads, here)
        if here is not None and other is not None:
            there = here.digests.get(other.sequence)
            detail = (
                f"{witness} saw  entry {other.sequence}, {other.digest}",
                f"shown     entry {other.sequence}, {there}",
            )
            alarms.append(Alarm(key=key, what=f"{witness} was shown another log", detail=detail))
            continue
        highest = max(heads, key=lambda head: head.sequence)
        if is_behind(here, highest):
            behind[key] = highest
    return tuple(alarms), behind


def _other(heads: Collection[Head], here: Shown) -> Head | None:
    """Return the first head that is none of the log that is shown."""
    for head in sorted(heads, key=lambda head: (head.sequence, head.digest)):
        if here.log != head.log or here.digests.get(head.sequence, head.digest) != head.digest:
            return head
    return None


def is_behind(here: Shown | None, head: Head) -> bool:
    """Return whether less is shown of a log than somebody saw."""
    return here is None or here.last < head.sequence


def withheld(key: Digest, witness: str, head: Head, here: Shown | None) -> Alarm:
    """Return the alarm for a log of which somebody saw more than is shown, also when it is asked again."""
    last = 0 if here is None else here.last
    detail = (f"{witness} saw  entry {head.sequence}, {head.digest}", f"shown     {last or 'none'}")
    return Alarm(key=key, what=f"entries that {witness} saw are not shown", detail=detail)
