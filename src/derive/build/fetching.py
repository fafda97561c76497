# SPDX-License-Identifier: Apache-2.0
"""The fetch builders: one artifact from wherever mirrors serve it, into the store.

Edge: the network, through derive.net.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from derive.canonical import Digest, Json
from derive.derivations.model import FlatOutput, Output, ResolvedDerivation
from derive.lock.mirrors import SystemMirrors
from derive.net.fetch import Fetcher
from derive.net.places import DebPath, Locator, Wanted, WheelFile, archive_of
from derive.net.progress import Progress
from derive.store.local import LocalStore


class StoreFetch:
    """Fetches for one run; connections, index pages and dead mirrors are shared by all its steps."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress
        self._guard = threading.Lock()
        self._fetcher: Fetcher | None = None

    def __call__(self, request: ResolvedDerivation, store: LocalStore) -> Digest:
        """Fetch what a step names; bytes that lie in the store already do not count, the lock must hold now."""
        with self._guard:
            if self._fetcher is None:
                self._fetcher = Fetcher(store=store, mirrors=SystemMirrors(), progress=self._progress)
        return self._fetcher.fetch(wanted(request), reuse=False)

    def stop(self) -> None:
        """End every transfer at its next piece."""
        with self._guard:
            if self._fetcher is not None:
                self._fetcher.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fetcher is not None:
            self._fetcher.close()


def wanted(request: ResolvedDerivation) -> Wanted:
    """Return what a ``fetch-*`` derivation asks for."""
    arguments = request.arguments
    size = arguments["size"]
    assert isinstance(size, int)
    return Wanted(
        name=str(arguments["name"]),
        version=str(arguments["version"]),
        locator=_locator(request.builder, arguments["name"], arguments),
        sha256=Digest(str(arguments["sha256"])),
        size=size,
    )


def _locator(builder: str, name: Json, arguments: object) -> Locator:
    assert isinstance(arguments, dict)
    if builder == "fetch-wheel":
        return WheelFile(project=str(name), file=arguments["file"])
    return DebPath(archive=archive_of(arguments["suite"]), path=arguments["locator"])


def fetched(digest: Digest) -> dict[str, Output]:
    """Return a fetch's outputs."""
    return {"out": FlatOutput(digest)}
