# SPDX-License-Identifier: Apache-2.0
"""Opens a cache: the repository, and what fetches blobs from it, with the patience that its settings say.

Edge: the network, by way of the clients that it makes.
"""

from __future__ import annotations

from typing import Protocol

from derive.cache.config import CacheConfig
from derive.net.fetch import Fetcher
from derive.net.http import Client, Settings
from derive.net.places import FixedMirrors, Mirror
from derive.net.progress import Progress, Quiet
from derive.oci.logins import SystemLogins
from derive.oci.remote import Remote
from derive.store.local import LocalStore


class Watch(Protocol):
    """Is told of bytes that came; raises a Failure to end the transfer."""

    def count(self, moved: int) -> None:
        """Count bytes."""


class _Watched(Quiet):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def advance(self, name: str, count: int) -> None:
        del name
        self._watch.count(count)


def settings_of(cache: CacheConfig) -> Settings:
    """Return the bounds of patience for a cache: what it does not serve is built, so they are narrow."""
    patience = float(cache.patience_s)
    return Settings(
        connect_s=min(5.0, patience),
        read_s=patience,
        attempts=2,
        longest_delay_s=2.0,
        slow_window_s=patience,
        longest_asked_s=patience,
        silence_ends=True,
    )


def connect(cache: CacheConfig) -> Remote:
    """Return the repository, to be read."""
    client = Client(settings=settings_of(cache), progress=Quiet())
    logins = SystemLogins(progress=Quiet())
    return Remote(Mirror(url=cache.registry), cache.repository, client=client, logins=logins, actions="pull")


def fetcher_for(store: LocalStore, cache: CacheConfig, watch: Watch | None = None) -> Fetcher:
    """Return what fetches blobs into a store; ``watch`` may end a transfer."""
    progress: Progress = Quiet() if watch is None else _Watched(watch)
    return Fetcher(store=store, mirrors=FixedMirrors(), progress=progress, settings=settings_of(cache))


def connect_to_write(cache: CacheConfig, progress: Progress) -> Remote:
    """Return the repository to be written to, with the patience of any push."""
    client = Client(settings=Settings(), progress=progress)
    logins = SystemLogins(progress=progress)
    return Remote(Mirror(url=cache.registry), cache.repository, client=client, logins=logins)
