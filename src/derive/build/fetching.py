# SPDX-License-Identifier: Apache-2.0
"""The fetch builders: one artifact from wherever mirrors serve it, into the store.

Edge: the network, through derive.net.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from derive.build.replaced import Replacements
from derive.canonical import Digest
from derive.derivations.model import Derivation, FlatOutput, Output, ResolvedDerivation
from derive.errors import UpstreamGone
from derive.lock.mirrors import SystemMirrors
from derive.net.fetch import Fetcher, Record
from derive.net.http import Settings
from derive.net.places import DebPath, Locator, MirrorSource, PlainUrl, Wanted, WheelFile, archive_of
from derive.net.progress import Progress
from derive.store.history import Source, add_source
from derive.store.local import LocalStore

if TYPE_CHECKING:
    from derive.build.upstream_fetching import UpstreamFetcher


class StoreFetch:
    """Fetches for one run; connections, index pages and dead mirrors are shared by all its steps.

    ``offline`` leaves archives that are folders of this machine; ``mirrors`` is where things are served in this run.
    """

    def __init__(
        self,
        progress: Progress | None = None,
        *,
        offline: bool = False,
        mirrors: MirrorSource | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._progress = progress
        self._offline = offline
        self.mirrors: MirrorSource = mirrors or SystemMirrors()
        self._settings = settings
        self._guard = threading.Lock()
        self._fetcher: Fetcher | None = None
        self._replacements: Replacements | None = None
        self._upstreams: UpstreamFetcher | None = None

    def __call__(self, request: ResolvedDerivation, store: LocalStore) -> Digest:
        """Fetch what a step names; bytes that lie in the store already do not count, the lock must hold now."""
        fetcher = self.fetcher(store)
        try:
            return fetcher.fetch(wanted(request), reuse=False)
        except UpstreamGone as error:
            with self._guard:
                if self._replacements is None:
                    self._replacements = Replacements(fetcher, self.mirrors)
            raise self._replacements.explained(error, request) from error

    def fetcher(self, store: LocalStore) -> Fetcher:
        """Return this run's fetcher."""
        with self._guard:
            if self._fetcher is None:
                self._fetcher = Fetcher(
                    store=store,
                    mirrors=self.mirrors,
                    progress=self._progress,
                    offline=self._offline,
                    settings=self._settings,
                    record=recorder(store),
                )
            return self._fetcher

    def not_archived(self, store: LocalStore, fetches: Iterable[Derivation]) -> tuple[Derivation, ...]:
        """Return the fetches that no archive of this machine can serve: what being offline makes impossible."""
        fetcher = self.fetcher(store)
        return tuple(derivation for derivation in fetches if not _is_archived(fetcher, store, derivation))

    def upstream(self, request: ResolvedDerivation, store: LocalStore, places: Sequence[str]) -> Mapping[str, Output]:
        """Fetch what a step names of an upstream; ``places`` are the URLs that its wish gives."""
        return self.upstreams(store).fetch(request, store, places)

    def upstreams(self, store: LocalStore) -> UpstreamFetcher:
        """Return what asks upstreams in this run."""
        from derive.build.upstream_fetching import UpstreamFetcher

        fetcher = self.fetcher(store)
        with self._guard:
            if self._upstreams is None:
                self._upstreams = UpstreamFetcher(fetcher, self.mirrors, self._progress, offline=self._offline)
            return self._upstreams

    def stop(self) -> None:
        """End every transfer at its next piece."""
        if self._upstreams is not None:
            self._upstreams.stop()
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


def _is_archived(fetcher: Fetcher, store: LocalStore, derivation: Derivation) -> bool:
    """Say whether the archives of this machine have all that a fetch gives; none of it is read."""
    fixed = derivation.fixed
    if isinstance(fixed, FlatOutput):
        return all(map(fetcher.has_archived, (fixed.digest, *_beside(derivation))))
    if derivation.builder == "fetch-engine":
        return _has_source(fetcher, store, derivation)
    if derivation.builder != "fetch-git" or fixed is None or not fetcher.has_archived(fixed.digest):
        return False
    proof = fetcher.archived_proof(fixed.digest)
    return proof is not None and fetcher.has_archived(proof)


def _beside(derivation: Derivation) -> Iterable[Digest]:
    """Yield what a fetch of several files brings beside its main one: an image's config and layers."""
    if derivation.builder == "fetch-oci":
        layers = derivation.arguments["layers"]
        assert isinstance(layers, list | tuple)
        for blob in (derivation.arguments["config"], *layers):
            assert isinstance(blob, Mapping)
            yield Digest(str(blob["sha256"]))


def _has_source(fetcher: Fetcher, store: LocalStore, derivation: Derivation) -> bool:
    """Say whether an engine's source is at hand: the store's, an archive's, or that of the engine that runs."""
    from derive.engine.fetch import is_own

    nar = Digest(str(derivation.arguments["nar"]))
    return store.has_tree(nar) or fetcher.has_archived(nar) or is_own(nar)


def recorder(store: LocalStore) -> Record:
    """Return what notes in a store's history where each artifact came from."""

    def record(digest: Digest, place: str) -> None:
        add_source(store.database, Source(digest=digest, place=place, fetched_s=int(time.time())))

    return record


def wanted(request: ResolvedDerivation, places: Sequence[str] = ()) -> Wanted:
    """Return what a ``fetch-*`` derivation of one file asks for; ``places`` are the URLs that its wish gives."""
    arguments = request.arguments
    size = arguments["size"]
    assert isinstance(size, int)
    return Wanted(
        name=str(arguments["name"]),
        version=str(arguments["version"]),
        locator=_locator(request, places),
        sha256=Digest(str(arguments["sha256"])),
        size=size,
    )


def _locator(request: ResolvedDerivation, places: Sequence[str]) -> Locator:
    arguments = request.arguments
    match request.builder:
        case "fetch-wheel":
            return WheelFile(project=str(arguments["name"]), file=str(arguments["file"]))
        case "fetch-url":
            return PlainUrl(url=places[0])
        case _:
            return DebPath(archive=archive_of(str(arguments["suite"])), path=str(arguments["locator"]))
