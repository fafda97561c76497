# SPDX-License-Identifier: Apache-2.0
"""Bring artifacts into the store by hash, from whichever mirror still serves them.

Edge: the network and the store.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import TracebackType
from typing import TYPE_CHECKING, Self, assert_never

from derive.canonical import Digest
from derive.errors import Corrupt, DeriveError, HostRefuses, Interrupted, Unavailable, UpstreamGone, expected_got
from derive.net.failures import Broken, Failure, Gone, Refused, Tried, Wrong, together, verdict
from derive.net.http import Client, Settings
from derive.net.names import normalise
from derive.net.places import DebPath, Mirror, MirrorSource, PlainUrl, Wanted, WheelFile, archive_url, display
from derive.net.progress import Progress, Quiet
from derive.net.simple import ACCEPT, PageError, SimpleFile, parse_page
from derive.store.protocol import BlobWriter, Store

if TYPE_CHECKING:
    import requests


class Fetcher:
    """Fetches for one run. Safe for several threads when its store is; close it, or use it as a context manager."""

    def __init__(
        self,
        *,
        store: Store,
        mirrors: MirrorSource,
        progress: Progress | None = None,
        offline: bool = False,
        settings: Settings | None = None,
    ) -> None:
        self._store = store
        self._mirrors = mirrors
        self._progress: Progress = progress or Quiet()
        self._offline = offline
        self._client = Client(settings=settings or Settings(), progress=self._progress)
        self._pages: dict[str, tuple[SimpleFile, ...] | Failure] = {}
        self._page_locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def stop(self) -> None:
        """Make every transfer end soon, raising Interrupted where it is waited for."""
        self._client.stop()

    def fetch(self, wanted: Wanted, *, reuse: bool = True) -> Digest:
        """Bring one artifact into the store, and return its digest.

        With ``reuse`` a blob that is there already is enough, wherever it came from; without, the locator itself
        must serve it.

        Raises:
            UpstreamGone: every mirror answers, and none has it.
            Corrupt: a mirror served other bytes, and none the right ones; nothing is kept of them.
            Unavailable: it could not be had now.
        """
        if reuse and self._store.has_blob(wanted.sha256):
            return wanted.sha256
        if self._offline:
            raise Unavailable(
                f"{wanted.name} {wanted.version}: {wanted.file} is not in the store, and nothing is fetched offline",
                hint="run it once without --offline",
            )
        tried: list[Tried] = []
        for mirror in self._mirrors_for(wanted):
            url = mirror.url
            try:
                url = self._locate(mirror, wanted)
                self._download(wanted, url, mirror)
            except Failure as failure:
                tried.append(Tried(url=url, failure=failure))
                continue
            self._tell_wrong(tried)
            return wanted.sha256
        raise verdict(wanted, tried)

    def fetch_all(self, wanted: Iterable[Wanted], *, reuse: bool = True, jobs: int = 8) -> None:
        """Fetch many at once. All are tried, and the failures are told together.

        Raises:
            DeriveError: as :meth:`fetch`, of the gravest kind that occurred.
        """
        distinct = list({(item.sha256, item.locator): item for item in wanted}.values())
        if reuse:
            distinct = [item for item in distinct if not self._store.has_blob(item.sha256)]
        errors: list[DeriveError] = []
        with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="fetch") as pool:
            futures = [pool.submit(self.fetch, item, reuse=reuse) for item in distinct]
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
                tried.append(Tried(url=mirror.url, failure=failure))
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
            return self._client.get(url, proxy=proxy, span=span).body
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
            case _:
                assert_never(wanted.locator)

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
            answer = self._client.get(url, accept=ACCEPT, proxy=mirror.proxy)
            return parse_page(answer.body, content_type=answer.content_type, url=answer.url)
        except PageError as error:
            return Refused(str(error))
        except Failure as failure:
            return failure

    def _tell_wrong(self, tried: Sequence[Tried]) -> None:
        for item in tried:
            if isinstance(item.failure, Wrong):
                self._progress.note(f"another mirror was used: {item}")

    def _download(self, wanted: Wanted, url: str, mirror: Mirror) -> None:
        self._progress.start(wanted.file, wanted.size)
        try:
            if not self._attempt(wanted, url, mirror):
                # It was put together from several answers that may not belong together: once more, from nothing.
                self._attempt(wanted, url, mirror, last=True)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise HostRefuses(
                    f"no space left in the store for {wanted.file}", hint="free some space, or name another --store"
                ) from error
            raise
        finally:
            self._progress.done(wanted.file)

    def _attempt(self, wanted: Wanted, url: str, mirror: Mirror, *, last: bool = False) -> bool:
        """Download into a new blob. Return False when joined pieces came out wrong and it is worth another go."""
        answers = 0
        with self._store.blob_writer() as writer:

            def once() -> None:
                nonlocal answers
                answers += 1
                self._append(writer, wanted, url, mirror)

            self._client.retry(url, once, lambda: writer.size)
            try:
                writer.commit(wanted.sha256)
            except Corrupt as error:
                if answers > 1 and not last:
                    return False
                raise Wrong("served other bytes", error.detail) from error
        return True

    def _append(self, writer: BlobWriter, wanted: Wanted, url: str, mirror: Mirror) -> None:
        if writer.size and writer.size == wanted.size:
            return
        with self._client.stream(url, offset=writer.size, proxy=mirror.proxy) as (response, pieces):
            _check_length(response, wanted, writer.size)
            for piece in _from(pieces, writer.size if response.status_code == 200 else 0):
                if wanted.size is not None and writer.size + len(piece) > wanted.size:
                    raise Wrong("served a longer file", expected_got(f"{wanted.size} bytes", "more"))
                writer.write(piece)
                self._progress.advance(wanted.file, len(piece))
        if wanted.size is not None and writer.size < wanted.size:
            raise Broken(f"the file ends after {writer.size} of {wanted.size} bytes")


def _from(pieces: Iterator[bytes], skip: int) -> Iterator[bytes]:
    """Yield pieces without their first ``skip`` bytes: a host that ignores Range sends them again."""
    for piece in pieces:
        if skip >= len(piece):
            skip -= len(piece)
            continue
        yield piece[skip:] if skip else piece
        skip = 0


def _check_length(response: requests.Response, wanted: Wanted, offset: int) -> None:
    """Refuse a wrong file before its bytes are read, where the headers tell."""
    if response.status_code == 206:
        span = response.headers.get("content-range", "")
        if not span.startswith(f"bytes {offset}-"):
            raise Broken(f"answered another range: {span or 'none stated'}")
        return
    length = response.headers.get("content-length", "")
    encoded = response.headers.get("content-encoding", "identity") != "identity"
    if wanted.size is not None and length.isdigit() and not encoded and int(length) != wanted.size:
        raise Wrong("served a file of another size", expected_got(f"{wanted.size} bytes", f"{length} bytes"))
