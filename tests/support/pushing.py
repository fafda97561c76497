# SPDX-License-Identifier: Apache-2.0
"""Stores with small images in them, and pushes and pulls of those with little patience.

Edge: stores, loopback sockets.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from derive.canonical import Digest
from derive.images.referrers import attach
from derive.net.fetch import Fetcher
from derive.net.http import Client, Settings
from derive.net.places import FixedMirrors, Mirror
from derive.oci.logins import SystemLogins
from derive.oci.pull import Pulled, Puller
from derive.oci.push import Pushed, plan_push, push
from derive.oci.reference import parse_reference
from derive.oci.registry import Registries
from derive.oci.remote import Remote
from derive.store.local import LocalStore
from support.archives import put
from support.oci_registry import Image, image

QUICK = Settings(
    connect_s=1, read_s=0.6, attempts=4, first_delay_s=0.01, longest_delay_s=0.02, slowest=1000, slow_window_s=0.3
)
NOBODY = {"HOME": "/nonexistent"}


class Told:
    """A :class:`derive.net.progress.Progress` that keeps what it is told; ``moved`` by blob."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.moved: dict[str, int] = {}

    def start(self, name: str, size: int | None) -> None:
        del size
        self.moved.setdefault(name, 0)

    def advance(self, name: str, count: int) -> None:
        self.moved[name] += count

    def done(self, name: str) -> None:
        del name

    def note(self, message: str) -> None:
        self.notes.append(message)


def noise(size: int, seed: int = 0) -> bytes:
    """Return bytes that no compressor makes smaller, the same for a seed."""
    return random.Random(seed).randbytes(size)


def some_image(*sizes: int, seed: int = 0) -> Image:
    """Return an image whose layers have about these sizes."""
    return image(*(noise(size, seed * 1000 + number) for number, size in enumerate(sizes)), packed=False)


def keep(store: LocalStore, made: Image) -> Digest:
    """Put an image into a store."""
    for data in made.blobs.values():
        put(store, data)
    return put(store, made.manifest)


@contextmanager
def store_with(folder: Path, made: Image, *, attached: Sequence[bytes] = ()) -> Iterator[LocalStore]:
    """Open a store that holds an image, and documents about it."""
    with LocalStore(folder) as store:
        digest = keep(store, made)
        for data in attached:
            attach(store, digest, "application/vnd.example.note", data, {"about": "a test"})
        yield store


def remote_of(url: str, repository: str, told: Told | None = None, environ: dict[str, str] | None = None) -> Remote:
    """Return a repository to push to."""
    client = Client(settings=QUICK, progress=told or Told())
    return Remote(Mirror(url=url), repository, client=client, logins=SystemLogins(environ=environ or NOBODY))


def push_to(
    url: str, repository: str, store: LocalStore, digest: Digest, tag: str | None = None, **options: Any
) -> Pushed:
    """Push an image."""
    told: Told = options.pop("told", None) or Told()
    remote = remote_of(url, repository, told, options.pop("environ", None))
    plan = plan_push(store, remote, digest, referrers=options.pop("referrers", True))
    return push(store, remote, plan, tag=tag, progress=told, **options)


def pull_from(url: str, reference: str, store: LocalStore, platform: str | None = None, **options: Any) -> Pulled:
    """Pull an image."""
    told: Told = options.pop("told", None) or Told()
    with Fetcher(store=store, mirrors=FixedMirrors(), progress=told, settings=QUICK) as fetcher:
        mirrors = [Mirror(url=url)]
        registries = Registries(mirrors=mirrors, client=fetcher.client, progress=told, environ=NOBODY)
        choose = options.pop("choose", lambda platforms: platforms[0])
        return Puller(store, registries, fetcher).pull(parse_reference(reference), choose, platform, **options)
