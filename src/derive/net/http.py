# SPDX-License-Identifier: Apache-2.0
"""One HTTP client for a run: bounded attempts, bounded waits, and hosts that do not answer are asked no more.

Edge: the network, by way of requests (proxies, netrc and certificate bundles as it finds them), and the clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from derive import __version__
from derive.errors import Interrupted
from derive.net.answers import broken_by, headers_of, status_failure
from derive.net.failures import Broken, Distrusted, Failure, Gone, Refused, Skipped, TimedOut, delays
from derive.net.places import origin
from derive.net.progress import Progress

if TYPE_CHECKING:
    import requests

T = TypeVar("T")

_PIECE = 256 * 1024
_SENT = 64 * 1024
_FAILED_IN_A_ROW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Bounds of patience. Times in seconds; ``attempts`` without progress; ``slowest`` in bytes per second.

    ``longest_asked_s`` is the longest pause that a host may ask for. A host that says nothing in time is asked as often
    as one whose connection breaks, or with ``silence_ends`` not again.
    """

    connect_s: float = 15.0
    read_s: float = 60.0
    attempts: int = 4
    first_delay_s: float = 0.5
    longest_delay_s: float = 8.0
    slowest: int = 512
    slow_window_s: float = 60.0
    longest_asked_s: float = 60.0
    silence_ends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole small answer; ``url`` is where it came from after redirects; names of headers are in lower case."""

    url: str
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What a request sends: so many bytes, which ``read`` gives from the beginning, each time that it is called."""

    size: int
    read: Callable[[], Iterator[bytes]]


class Client:
    """Sessions by thread, and the hosts found dead in this run."""

    def __init__(self, *, settings: Settings, progress: Progress) -> None:
        self.settings = settings
        self._progress = progress
        self._local = threading.local()
        self._guard = threading.Lock()
        self._sessions: list[requests.Session] = []
        self._dead: dict[str, str] = {}
        self._failed: dict[str, int] = {}
        self._stop = threading.Event()

    def close(self) -> None:
        """Close every connection."""
        with self._guard:
            for session in self._sessions:
                session.close()
            self._sessions.clear()
            self._local = threading.local()

    def stop(self) -> None:
        """Make every transfer of this client end at its next piece."""
        self._stop.set()

    def check_stopped(self) -> None:
        """Raise Interrupted once :meth:`stop` was called."""
        if self._stop.is_set():
            raise Interrupted("the fetch was stopped")

    def pause(self, seconds: float) -> None:
        """Wait; raises Interrupted once :meth:`stop` was called."""
        self._stop.wait(seconds)
        self.check_stopped()

    def get(
        self,
        url: str,
        *,
        accept: str = "*/*",
        proxy: str | None = None,
        span: str | None = None,
        authorization: str | None = None,
        limit: int = 1 << 28,
    ) -> Answer:
        """Return a small answer whole, with retries. ``span`` is the value of a Range header.

        An answer of more than ``limit`` bytes, as they are decoded, is refused.
        ``authorization`` is the value of that header, sent to the URL's own origin alone; without it, a netrc file and
        credentials in the URL count.

        Raises:
            Failure: when it cannot be had.
        """
        headers = {"Accept": accept, "Accept-Encoding": "identity" if span else "gzip, identity;q=0.5"}
        if span:
            headers["Range"] = span

        def once() -> Answer:
            with self._request(url, headers, proxy, authorization) as response:
                if span and response.status_code != 206:
                    raise Refused("the host serves no ranges")
                body = self._whole(response, decode=span is None, limit=limit)
                told = headers_of(response)
                return Answer(url=response.url, content_type=told.get("content-type", ""), body=body, headers=told)

        return self.retry(url, once)

    def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        body: Body | None = None,
        proxy: str | None = None,
        authorization: str | None = None,
        limit: int = 1 << 20,
    ) -> Answer:
        """Send one request, once, and return its answer whatever its status says; only GET and HEAD are redirected.

        ``authorization`` as for :meth:`get`, and ``limit`` too.

        Raises:
            Failure: when there is no whole answer.
        """
        sent = {"Accept": "*/*", "Accept-Encoding": "identity", **headers}
        with self._request(url, sent, proxy, authorization, method=method, body=body, any_status=True) as response:
            whole = self._whole(response, decode=False, limit=limit)
            told = headers_of(response)
            return Answer(
                url=response.url,
                content_type=told.get("content-type", ""),
                body=whole,
                headers=told,
                status=response.status_code,
                reason=response.reason or "",
            )

    def retry(self, url: str, attempt: Callable[[], T], seen: Callable[[], int] = lambda: 0) -> T:
        """Call until it works, pausing longer each time; bytes ``seen`` to grow count as progress.

        Raises:
            Failure: the last one, when attempts without progress are used up, or the host asks for a long pause.
        """
        left = self.settings.attempts
        pauses = delays(self.settings.first_delay_s, self.settings.longest_delay_s)
        while True:
            self.check_dead(url)
            before = seen()
            try:
                answer = attempt()
            except Broken as failure:
                left = self.settings.attempts - 1 if seen() - before >= _PIECE else left - 1
                asked = failure.after or 0.0
                is_over = isinstance(failure, TimedOut) and self.settings.silence_ends
                if is_over or left <= 0 or asked > self.settings.longest_asked_s:
                    self._count(url, failure)
                    raise
                self.pause(max(next(pauses), asked))
            except Distrusted as failure:
                self._mark_dead(url, "is not trusted", failure.reason)
                raise
            except Gone:
                self._failed.pop(origin(url), None)
                raise
            else:
                self._failed.pop(origin(url), None)
                return answer

    def check_dead(self, url: str) -> None:
        """Refuse a host that did not answer before, without asking it again; raises Skipped."""
        reason = self._dead.get(origin(url))
        if reason is not None:
            raise Skipped(reason)

    @contextmanager
    def stream(
        self, url: str, *, offset: int, proxy: str | None, authorization: str | None = None
    ) -> Iterator[tuple[requests.Response, Iterator[bytes]]]:
        """Open a file from an offset on, and yield the response with its undecoded pieces.

        ``authorization`` as for :meth:`get`.

        Raises:
            Failure: on opening, and while pieces are read.
        """
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        with self._request(url, headers, proxy, authorization) as response:
            yield response, self._pieces(response, decode=False)

    def _count(self, url: str, failure: Broken) -> None:
        """Mark a host dead that is silent, or that answers nothing but errors."""
        host = origin(url)
        with self._guard:
            self._failed[host] = failed = self._failed.get(host, 0) + 1
        if failure.silent:
            self._mark_dead(url, "does not answer", failure.reason)
        elif failed >= _FAILED_IN_A_ROW:
            self._mark_dead(url, "answers with errors", failure.reason)

    def _mark_dead(self, url: str, what: str, reason: str) -> None:
        host = origin(url)
        with self._guard:
            known = host in self._dead
            self._dead.setdefault(host, reason)
        if not known:
            self._progress.note(f"{host} {what} ({reason}): skipped from now on")

    def _whole(self, response: requests.Response, *, decode: bool, limit: int) -> bytes:
        body = bytearray()
        for piece in self._pieces(response, decode=decode):
            body += piece
            if len(body) > limit:
                raise Refused(f"an answer of more than {limit} bytes")
        return bytes(body)

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            import requests

            session = requests.Session()
            session.headers["User-Agent"] = f"spark-derive/{__version__}"
            self._local.session = session
            with self._guard:
                self._sessions.append(session)
        return session

    @contextmanager
    def _request(
        self,
        url: str,
        headers: dict[str, str],
        proxy: str | None,
        authorization: str | None,
        *,
        method: str = "GET",
        body: Body | None = None,
        any_status: bool = False,
    ) -> Iterator[requests.Response]:
        import requests

        self.check_stopped()
        proxies = {"http": proxy, "https": proxy} if proxy else None
        timeout = (self.settings.connect_s, self.settings.read_s)
        session = self._session()

        def authorise(request: requests.PreparedRequest) -> requests.PreparedRequest:
            # As a header it would lose to a netrc entry. A redirect elsewhere drops it.
            request.headers["Authorization"] = authorization or ""
            return request

        auth = None if authorization is None else authorise
        try:
            response = session.request(
                method,
                url,
                headers=headers,
                data=_Sending(self, body) if body is not None and body.size else None,
                proxies=proxies,
                timeout=timeout,
                stream=True,
                auth=auth,
                allow_redirects=method in ("GET", "HEAD"),
            )
        except (requests.RequestException, ValueError) as error:  # the latter: a redirect to what is no URL
            raise self._broken_by(error) from error
        try:
            if response.status_code not in (200, 206) and not any_status:
                raise status_failure(response.status_code, response.reason, headers_of(response))
            yield response
        finally:
            response.close()

    def _pieces(self, response: requests.Response, *, decode: bool) -> Iterator[bytes]:
        import urllib3

        pace = _Pace(self.settings)
        while True:
            self.check_stopped()
            try:
                # read1 hands over what has come: a host that drips bytes is seen to drip.
                piece: bytes = response.raw.read1(_PIECE, decode_content=decode)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise self._broken_by(error) from error
            if not piece:
                return
            yield piece
            pace.count(len(piece))

    def _broken_by(self, error: BaseException) -> Failure:
        return broken_by(error, connect_s=self.settings.connect_s, read_s=self.settings.read_s)


class _Pace:
    """Finds a transfer too slow, window by window."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._start, self._bytes = time.monotonic(), 0

    def count(self, size: int) -> None:
        """Count what has moved; raises Broken when too little has."""
        self._bytes += size
        elapsed = time.monotonic() - self._start
        if elapsed >= self._settings.slow_window_s:
            if self._bytes < self._settings.slowest * elapsed:
                raise Broken(f"only {self._bytes} bytes in {elapsed:.0f} s", silent=True)
            self._start, self._bytes = time.monotonic(), 0


class _Sending:
    """A body while it is sent. It has a length, so that it is not sent in chunks, which not every host takes."""

    def __init__(self, client: Client, body: Body) -> None:
        self._client = client
        self._body = body

    def __len__(self) -> int:
        return self._body.size

    def __iter__(self) -> Iterator[bytes]:
        pace = _Pace(self._client.settings)
        for piece in self._body.read():
            view = memoryview(piece)
            # In parts: a connection has a bounded time for each, and a slow one is none that stands still.
            for start in range(0, len(view), _SENT):
                self._client.check_stopped()
                part = view[start : start + _SENT].tobytes()
                yield part
                pace.count(len(part))
