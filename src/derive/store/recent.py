# SPDX-License-Identifier: Apache-2.0
"""Listings that were read lately: the steps of one run read those of the same trees over and over.

Edge: threads, which share it. It reads nothing itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import os

    from derive.canonical import Digest
    from derive.trees.listing import Listing

MOST = 250_000
"""Entries of all listings that are kept: some 100 MB."""

_Facts: TypeAlias = tuple[int, int, int]


class RecentListings:
    """The listings read last, as long as their files are the ones that were read. Safe for several threads."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[Digest, tuple[_Facts, Listing]] = OrderedDict()
        self._entries = 0
        self._guard = threading.Lock()

    def get(self, digest: Digest, facts: os.stat_result) -> Listing | None:
        """Return a listing that was read of the file with these facts."""
        with self._guard:
            kept = self._kept.get(digest)
            if kept is None or kept[0] != _facts(facts):
                return None
            self._kept.move_to_end(digest)
            return kept[1]

    def put(self, digest: Digest, facts: os.stat_result, listing: Listing) -> Listing:
        """Keep a listing, and let those go that were used longest ago; returns it."""
        with self._guard:
            self._drop(digest)
            if len(listing) <= self._most:
                self._kept[digest] = (_facts(facts), listing)
                self._entries += len(listing)
            while self._entries > self._most:
                self._drop(next(iter(self._kept)))
        return listing

    def _drop(self, digest: Digest) -> None:
        kept = self._kept.pop(digest, None)
        if kept is not None:
            self._entries -= len(kept[1])


def _facts(facts: os.stat_result) -> _Facts:
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
