# SPDX-License-Identifier: Apache-2.0
"""Bring artifacts into the store by hash, from whichever mirror still serves them.

Edge: the network and the store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import TracebackType
from typing import Self, TypeAlias, assert_never

from derive.canonical import Digest
from derive.errors import DeriveError, HostRefuses, Interrupted, Unavailable, UpstreamGone
from derive.net.archives import Archives
from derive.net.failures import Failure, Gone, Refused, Tried, Wrong, together, unarchived, verdict
from derive.net.http import Client, Settings
from derive.net.names import normalise
from derive.net.places import (
    DebPath,
    Mirror,
    MirrorSource,
    Named,
    Place,
    PlainUrl,
    Wanted,
    WheelFile,
    archive_url,
    display,
)
from derive.net.progress import Progress, Quiet
from derive.net.simple import ACCEPT, PageError, SimpleFile, parse_page
from derive.net.transfer import Transfer
from derive.store.local import LocalStore
from derive.store.protocol import Store

Record: TypeAlias = Callable[[Digest, str], None]
"""Is told of each artifact from where it came: a URL without credentials, or an archive's folder."""

_Candidate: TypeAlias = tuple[str, Callable[[], Place]]
"""A mirror's URL, and how to find the place of one artifact on it, which may raise Failure."""


class Fetcher:
    """Fetches for one run. Safe for several threads when its store is; close it, or use it as a context manager.

    ``offline`` leaves the store and the archives of this machine. ``client`` is for those who speak to registries
    themselves: hosts found dead by one are dead for the other.
    """

    def __init__(
        self,
        *,
        store: Store,
        mirrors: MirrorSource,
        progress: Progress | None = None,
        offline: bool = False,
        settings: Settings | None = None,
        record: Record | None = None,
    ) -> None:
        self._store = store
        self._mirrors = mirrors
        self._progress: Progress = progress or Quiet()
        self._offline = offline
        self._record = record
        self.client = Client(settings=settings or Settings(), progress=self._progress)
        self._transfer = Transfer(store=store, client=self.client, progress=self._progress)
        self._archives = Archives(
            mirrors=mirrors,
            transfer=self._transfer,
            client=self.client,
            progress=self._progress,
            offline=offline,
            own=str(store.root) if isinstance(store, LocalStore) else None,
        )
        self._pages: dict[str, tuple[SimpleFile, ...] | Failure] = {}
        self._page_locks: dict[str, threading.Lock] = {}
        self._served: set[tuple[Digest, str]] = set()
        self._guard = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self.client.close()

    def stop(self) -> None:
        """Make every transfer end soon, raising Interrupted where it is waited for."""
        self.client.stop()

    def fetch(self, wanted: Wanted, *, reuse: bool = True) -> Digest:
        """Bring one artifact into the store, and return its digest.

        With ``reuse`` a blob that is there already is enough, wherever it came from; without, the locator itself
        must serve it, or an archive when no mirror does.

        Raises:
            UpstreamGone: every mirror answers, and none has it.
            Corrupt: a mirror served other bytes, and none the right ones; nothing is kept of them.
            Unavailable: it could not be had now.
        """
        if reuse and self._store.has_blob(wanted.sha256):
            return wanted.sha256
        if self._offline:
            return self._from_folders(wanted, reuse=reuse)
        try:
            candidates = [self._candidate(mirror, wanted) for mirror in self._mirrors_for(wanted)]
        except HostRefuses:
            if not self._archives.places():
                raise
            candidates = []
        return self._from_first(wanted, candidates, reuse=reuse)

    def fetch_at(self, wanted: Wanted, places: Sequence[Place], *, reuse: bool = True) -> Digest:
        """Bring one artifact into the store from the first of some URLs, then from archives; as :meth:`fetch`."""
        if reuse and self._store.has_blob(wanted.sha256):
            return wanted.sha256
        if self._offline:
            return self._from_folders(wanted, reuse=reuse)
        return self._from_first(wanted, [_known(place) for place in places], reuse=reuse)

    def fetch_blob(self, digest: Digest, size: int | None, what: str) -> Digest:
        """Bring a blob into the store from archives alone, also in place of a damaged one; ``what`` is its name.

        Raises:
            Corrupt: an archive holds other bytes, and none the right ones.
            Unavailable: no archive gives it.
        """
        wanted = Wanted(name=what, version="", locator=Named(text=what, file=what), sha256=digest, size=size)
        tried: list[Tried] = []
        if self._from_archives(wanted, tried, reuse=False):
            return digest
        raise unarchived(wanted, tried)

    def note_served(self, wanted: Wanted) -> None:
        """Count an artifact as brought for its very locator: somebody fetched it with this fetcher's client."""
        self._served.add((wanted.sha256, repr(wanted.locator)))

    def has_served(self, wanted: Wanted) -> bool:
        """Say whether this fetcher brought an artifact for its very locator: bytes that were there do not count."""
        return (wanted.sha256, repr(wanted.locator)) in self._served

    def has_archived(self, digest: Digest) -> bool:
        """Say whether an archive of this machine has a file of that name; it is not read."""
        return self._archives.local_with(digest) is not None

    def archived_proof(self, nar: Digest) -> Digest | None:
        """Return the blob that proves which commit's tree a NAR is, where a capsule among the archives names one."""
        return self._archives.proof_of(nar)

    def fetch_all(
        self,
        wanted: Iterable[Wanted],
        *,
        reuse: bool = True,
        jobs: int = 8,
        places: Callable[[Wanted], Sequence[Place]] | None = None,
    ) -> None:
        """Fetch many at once, each from its ``places`` where they are given. All are tried, failures told together.

        Raises:
            DeriveError: as :meth:`fetch`, of the gravest kind that occurred.
        """

        def one(item: Wanted) -> Digest:
            if places is None:
                return self.fetch(item, reuse=reuse)
            return self.fetch_at(item, places(item), reuse=reuse)

        distinct = list({(item.sha256, item.locator): item for item in wanted}.values())
        if reuse:
            distinct = [item for item in distinct if not self._store.has_blob(item.sha256)]
        errors: list[DeriveError] = []
        with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="fetch") as pool:
            futures = [pool.submit(one, item) for item in distinct]
            try:
                for future in as_completed(futures):
                    try:
                        future.result()
                    except Interrupted:
                        raise
                    except DeriveError as error:
                        errors.append(error)
            except BaseException:
                self.stop()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        if errors:
            raise together(sorted(errors, key=lambda error: error.message), len(distinct))

    def project(self, project: str) -> tuple[SimpleFile, ...]:
        """Return what the first index that has the project lists of it.

        Raises:
            UpstreamGone: no index has it.
            Unavailable: no index could be asked.
        """
        tried = []
        for mirror in self._mirrors.python():
            try:
                return self._page(mirror, project)
            except Failure as failure:
                tried.append(Tried(place=display(mirror.url), failure=failure))
        detail = [f"tried     {item}" for item in tried]
        if tried and all(isinstance(item.failure, Gone) for item in tried):
            raise UpstreamGone(f"no index has the project {project}", detail=detail)
        raise Unavailable(f"the project {project} could not be looked up", detail=detail)

    def read_span(self, url: str, span: str) -> bytes:
        """Return a piece of a remote file; ``span`` is a Range header's value.

        Raises:
            Unavailable: when the host serves no ranges, or does not answer.
        """
        return self._read(url, span=span)

    def read_small(self, url: str) -> bytes:
        """Return a small remote file whole; raises Unavailable."""
        return self._read(url)

    def _read(self, url: str, span: str | None = None) -> bytes:
        proxy = next((m.proxy for m in self._mirrors.python() if m.proxy), None)
        try:
            return self.client.get(url, proxy=proxy, span=span).body
        except Failure as failure:
            raise Unavailable(f"{display(url)} could not be read: {failure.reason}") from failure

    def _mirrors_for(self, wanted: Wanted) -> tuple[Mirror, ...]:
        match wanted.locator:
            case DebPath(archive="debian"):
                return self._mirrors.debian()
            case DebPath():
                return self._mirrors.security()
            case WheelFile():
                return self._mirrors.python()
            case PlainUrl(url=url):
                return (Mirror(url=url),)
            case Named():
                return ()
            case _:
                assert_never(wanted.locator)

    def _candidate(self, mirror: Mirror, wanted: Wanted) -> _Candidate:
        return mirror.url, lambda: Place(url=self._locate(mirror, wanted), proxy=mirror.proxy)

    def _from_first(self, wanted: Wanted, candidates: Sequence[_Candidate], *, reuse: bool) -> Digest:
        tried: list[Tried] = []
        for mirror, find in candidates:
            shown = display(mirror)
            try:
                place = find()
                shown = display(place.url)
                self._transfer.from_url(wanted, place, reuse=reuse)
            except Failure as failure:
                tried.append(Tried(place=shown, failure=failure))
                continue
            self._tell_wrong(tried)
            self._note_source(wanted, shown)
            return wanted.sha256
        archived: list[Tried] = []
        if self._from_archives(wanted, archived, reuse=reuse):
            self._tell_wrong(tried)
            return wanted.sha256
        raise verdict(wanted, tried, archived)

    def _from_archives(self, wanted: Wanted, tried: list[Tried], *, reuse: bool) -> bool:
        place = self._archives.bring(wanted, tried, reuse=reuse)
        if place is None:
            return False
        self._tell_wrong(tried)
        self._note_source(wanted, f"{place}")
        return True

    def _from_folders(self, wanted: Wanted, *, reuse: bool) -> Digest:
        tried: list[Tried] = []
        if self._from_archives(wanted, tried, reuse=reuse):
            return wanted.sha256
        raise Unavailable(
            f"{wanted.subject}: {wanted.file} is not in the store, and nothing is fetched offline",
            detail=[f"tried     {item}" for item in tried],
            hint="run it once without --offline",
        )

    def _note_source(self, wanted: Wanted, place: str) -> None:
        with self._guard:
            self._served.add((wanted.sha256, repr(wanted.locator)))
        if self._record is not None:
            self._record(wanted.sha256, place)

    def _locate(self, mirror: Mirror, wanted: Wanted) -> str:
        match wanted.locator:
            case DebPath(path=path):
                return archive_url(mirror, path)
            case PlainUrl(url=url):
                return url
            case WheelFile(project=project, file=file):
                for listed in self._page(mirror, project):
                    if listed.file == file:
                        return listed.url
                raise Gone(f"lists no file {file}")
            case Named():
                raise Gone("its place is not known")
            case _:
                assert_never(wanted.locator)

    def _page(self, mirror: Mirror, project: str) -> tuple[SimpleFile, ...]:
        url = f"{mirror.url}/{normalise(project)}/"
        with self._guard:
            lock = self._page_locks.setdefault(url, threading.Lock())
        with lock:
            known = self._pages.get(url)
            if known is None:
                known = self._pages[url] = self._ask(url, mirror)
        if isinstance(known, Failure):
            raise known
        return known

    def _ask(self, url: str, mirror: Mirror) -> tuple[SimpleFile, ...] | Failure:
        try:
            answer = self.client.get(url, accept=ACCEPT, proxy=mirror.proxy)
            return parse_page(answer.body, content_type=answer.content_type, url=answer.url)
        except PageError as error:
            return Refused(str(error))
        except Failure as failure:
            return failure

    def _tell_wrong(self, tried: Sequence[Tried]) -> None:
        for item in tried:
            if isinstance(item.failure, Wrong):
                self._progress.note(f"another mirror was used: {item}")


def _known(place: Place) -> _Candidate:
    return place.url, lambda: place
