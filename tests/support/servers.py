# SPDX-License-Identifier: Apache-2.0
"""A web server on the loopback address that misbehaves as told, request by request.

Edge: loopback sockets and threads.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer. ``cut``: close the connection after so many bytes of body. ``hang``: never answer.

    ``drip``: seconds between single bytes. ``ranges``: whether Range is heeded. ``length``: whether a length is stated.
    ``stated``: the length that is stated, true or not. ``shifted``: a range begins so many bytes after what was asked.
    ``chunked``: sent in chunks of 1,000 bytes; with ``cut``, the connection ends inside one. ``stall``: say nothing
    more after so many bytes of body.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    hang: bool = False
    drip: float | None = None
    ranges: bool = True
    length: bool = True
    stated: int | None = None
    shifted: int = 0
    chunked: bool = False
    stall: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked: method, path, and the headers, names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that hang up are what these tests are about."""


class FaultServer:
    """Serves replies by path. Each path's replies are used up in order, and the last one stays; others are 404."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._replies: dict[str, list[Reply]] = {}
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._answer(self)

            def do_HEAD(self) -> None:
                outer._answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
                del format, args

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The server's root, without a closing slash."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self, path: str, *replies: Reply) -> str:
        """Set the replies for a path, and return its URL."""
        self._replies[path] = list(replies)
        return self.url + path

    def paths(self) -> list[str]:
        """Return the paths asked for, in order."""
        return [request.path for request in self.requests]

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {key.lower(): value for key, value in handler.headers.items()}
        with self._guard:
            self.requests.append(Request(handler.command, handler.path, headers))
            queue = self._replies.get(handler.path, [Reply(status=404)])
            reply = queue.pop(0) if len(queue) > 1 else queue[0]
        try:
            self._send(handler, reply, headers.get("range", ""))
        except (BrokenPipeError, ConnectionResetError):
            handler.close_connection = True

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply, span: str) -> None:
        if reply.hang:
            self._stopping.wait(30)
            handler.close_connection = True
            return
        body, status, extra = reply.body, reply.status, dict(reply.headers)
        if reply.ranges and span and status == 200:
            body, status, extra["Content-Range"] = _part(reply, span)
        if reply.ranges:
            extra["Accept-Ranges"] = "bytes"
        handler.send_response(status)
        if reply.chunked:
            extra["Transfer-Encoding"] = "chunked"
        elif reply.length:
            extra.setdefault("Content-Length", str(len(body) if reply.stated is None else reply.stated))
        else:
            extra["Connection"] = "close"
        for key, value in extra.items():
            handler.send_header(key, value)
        handler.end_headers()
        sent = b"" if handler.command == "HEAD" else body if reply.cut is None else body[: reply.cut]
        if reply.chunked:
            sent = _in_chunks(sent, whole=reply.cut is None)
        self._write(handler, sent[: reply.stall], reply.drip)
        if reply.stall is not None:
            self._stopping.wait(30)
        handler.close_connection = reply.cut is not None or reply.stated is not None or not reply.length

    def _write(self, handler: BaseHTTPRequestHandler, sent: bytes, drip: float | None) -> None:
        if drip is None:
            handler.wfile.write(sent)
        else:
            for byte in sent:
                handler.wfile.write(bytes([byte]))
                if self._stopping.wait(drip):
                    break
        handler.wfile.flush()


def _part(reply: Reply, span: str) -> tuple[bytes, int, str]:
    """Return what a Range header asks for: the bytes, the status, the Content-Range."""
    first, _, last = span.removeprefix("bytes=").partition("-")
    size = len(reply.body)
    start, end = int(first) + reply.shifted, min(int(last) + 1, size) if last else size
    if start >= size:
        return b"", 416, f"bytes */{size}"
    return reply.body[start:end], 206, f"bytes {start}-{end - 1}/{size}"


def _in_chunks(body: bytes, *, whole: bool) -> bytes:
    pieces = [body[start : start + 1000] for start in range(0, len(body), 1000)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return chunks + b"0\r\n\r\n" if whole else chunks[:-500]
