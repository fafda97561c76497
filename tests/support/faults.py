# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of a real server that breaks what it is told to break, request by request.

Edge: loopback sockets and threads.
"""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal, Self, TypeAlias

_PIECE = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset

Kind: TypeAlias = Literal[
    "status", "reset-request", "reset-unforwarded", "lose-answer", "reset-answer", "truncate", "flip", "flip-request",
    "drip", "hang", "gate", "gate-answer",
]  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Fault:
    """What goes wrong with requests whose ``METHOD path`` a pattern fits.

    The first ``skip`` of them pass; ``times`` says how many then do not.

    ``status``: answered by the proxy alone, with ``headers``. ``reset-request``: so many bytes of the body go on, then
    both connections are reset. ``reset-unforwarded``: reset after so many bytes, of which the server saw none.
    ``lose-answer``: the server has answered, and the connection is reset. ``reset-answer``, ``truncate``: after so many
    bytes of the answer. ``flip``, ``flip-request``: one bit of that byte. ``drip``: the answer comes byte by byte.
    ``hang``: nothing is answered. ``gate``: as ``reset-request``, once ``gate`` is opened. ``gate-answer``: the rest of
    the answer goes on once it is.
    """

    pattern: str
    kind: Kind
    at: int = 0
    times: int = 1
    skip: int = 0
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    reached: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Seen:
    """One request that came: ``sent`` counts the bytes of its body that went on, ``got`` those of the answer's."""

    method: str
    path: str
    headers: Mapping[str, str]
    sent: int = 0
    got: int = 0
    status: int = 0


class FaultProxy:
    """Passes requests on to ``host:port``. Use it as a context manager."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.seen: list[Seen] = []
        self.faults: list[Fault] = []
        self.stopping = threading.Event()
        self._guard = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        """The proxy's root, without a closing slash."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, pattern: str, kind: Kind, at: int = 0, **more: object) -> Fault:
        """Have something go wrong."""
        fault = Fault(pattern=pattern, kind=kind, at=at, **more)  # type: ignore[arg-type]
        self.faults.append(fault)
        return fault

    def sent(self, pattern: str = "") -> int:
        """Return the bytes of bodies that went on to the server."""
        return sum(one.sent for one in self._fitting(pattern))

    def got(self, pattern: str = "") -> int:
        """Return the bytes of answers that went back."""
        return sum(one.got for one in self._fitting(pattern))

    def count(self, pattern: str) -> int:
        """Return how many requests fit a pattern."""
        return len(self._fitting(pattern))

    def forget(self) -> None:
        """Forget what was seen and what is to go wrong."""
        self.seen.clear()
        self.faults.clear()

    def begin(self, request: Seen) -> Fault | None:
        """Note a request, and return what is to go wrong with it."""
        with self._guard:
            self.seen.append(request)
            for fault in self.faults:
                if not fault.times or not re.search(fault.pattern, f"{request.method} {request.path}"):
                    continue
                if fault.skip:
                    fault.skip -= 1
                else:
                    fault.times -= 1
                    fault.reached.set()
                    return fault
        return None

    def _fitting(self, pattern: str) -> list[Seen]:
        return [one for one in self.seen if re.search(pattern, f"{one.method} {one.path}")]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        for fault in self.faults:
            fault.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: connections that break are what these tests are about."""


def _handler(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
            del format, args

    def act(handler: BaseHTTPRequestHandler) -> None:
        _Passage(proxy, handler).run()

    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", act)
    return Handler


class _Passage:
    """One request on its way."""

    def __init__(self, proxy: FaultProxy, handler: BaseHTTPRequestHandler) -> None:
        self.proxy = proxy
        self.handler = handler
        self.seen = Seen(handler.command, handler.path, {key.lower(): text for key, text in handler.headers.items()})
        self.fault = proxy.begin(self.seen)
        self.kind = "" if self.fault is None else self.fault.kind
        self.at = 0 if self.fault is None else self.fault.at

    def run(self) -> None:
        if self.kind == "hang":
            self.proxy.stopping.wait(30)
            self._reset()
        elif self.kind == "status":
            self._own_answer()
        elif self.kind == "reset-unforwarded":
            self.handler.rfile.read(self.at)
            self._reset()
        else:
            self._forward()

    def _own_answer(self) -> None:
        assert self.fault is not None
        for _ in self._body():
            pass
        self.seen.status = self.fault.status
        self.handler.send_response(self.fault.status)
        for key, text in {"Content-Length": str(len(self.fault.body)), **self.fault.headers}.items():
            self.handler.send_header(key, text)
        self.handler.end_headers()
        self.handler.wfile.write(self.fault.body)

    def _forward(self) -> None:
        host, _, port = self.proxy.upstream.rpartition(":")
        upstream = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            upstream.putrequest(self.handler.command, self.handler.path, skip_host=True, skip_accept_encoding=True)
            for key, text in self.handler.headers.items():
                upstream.putheader(key, text)
            upstream.endheaders()
            if not self._send(upstream):
                self._reset()
                return
            answer = upstream.getresponse()
            if self.kind == "lose-answer":
                answer.read()
                self._reset()
                return
            self._answer(answer)
        finally:
            upstream.close()

    def _body(self) -> Iterator[bytes]:
        left = int(self.handler.headers.get("Content-Length") or 0)
        while left and (piece := self.handler.rfile.read1(min(_PIECE, left))):
            left -= len(piece)
            yield piece

    def _send(self, upstream: http.client.HTTPConnection) -> bool:
        """Pass the body on; False when it was to break off."""
        for piece in self._body():
            part = piece
            if self.kind == "flip-request":
                part = _flipped(piece, self.at - self.seen.sent)
            if self.kind in ("reset-request", "gate") and self.seen.sent + len(piece) >= self.at:
                part = piece[: self.at - self.seen.sent]
                upstream.send(part)
                self.seen.sent += len(part)
                if self.kind == "gate":
                    self._wait()
                return False
            upstream.send(part)
            self.seen.sent += len(part)
        return True

    def _wait(self) -> None:
        assert self.fault is not None
        self.kind = ""
        self.fault.gate.wait(30)

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        self.seen.status = answer.status
        self.handler.send_response(answer.status, answer.reason)
        for key, text in answer.getheaders():
            if key.lower() not in ("connection", "transfer-encoding", "date", "server"):
                self.handler.send_header(key, text)
        if answer.getheader("Content-Length") is None and answer.status != 204:
            self.handler.send_header("Connection", "close")
            self.handler.close_connection = True
        self.handler.end_headers()
        while piece := answer.read(_PIECE):
            if not self._write(piece):
                return
        self.handler.wfile.flush()

    def _write(self, piece: bytes) -> bool:
        """Pass a piece of the answer on; False when the connection is done with."""
        if self.kind in ("reset-answer", "truncate") and self.seen.got + len(piece) > self.at:
            part = piece[: self.at - self.seen.got]
            self.handler.wfile.write(part)
            self.seen.got += len(part)
            self.handler.wfile.flush()
            if self.kind == "reset-answer":
                self._reset()
            self.handler.close_connection = True
            return False
        if self.kind == "gate-answer" and self.seen.got + len(piece) > self.at:
            self.handler.wfile.flush()
            self._wait()
        if self.kind == "drip":
            for byte in piece:
                self.handler.wfile.write(bytes([byte]))
                if self.proxy.stopping.wait(0.05):
                    return False
            return True
        part = _flipped(piece, self.at - self.seen.got) if self.kind == "flip" else piece
        self.handler.wfile.write(part)
        self.seen.got += len(part)
        return True

    def _reset(self) -> None:
        self.handler.close_connection = True
        self.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.handler.connection.close()


def _flipped(piece: bytes, at: int) -> bytes:
    if not 0 <= at < len(piece):
        return piece
    return piece[:at] + bytes([piece[at] ^ 1]) + piece[at + 1 :]
