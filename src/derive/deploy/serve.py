# SPDX-License-Identifier: Apache-2.0
"""An image of a store as a read-only registry on loopback: its manifest and blobs by digest, and nothing else.

Edge: loopback sockets, threads, the store's files.

What engines ask for is a small part of the OCI distribution specification: ``GET`` and ``HEAD`` of ``/v2/``, of a
manifest by its digest and of a blob, from any byte on. There is no listing, no tag and no other method. Bytes go from
the file to the socket inside the kernel, and are not hashed here: whoever pulls hashes all of them.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from derive.deploy.ranges import Part, part_of

if TYPE_CHECKING:
    from derive.deploy import image_facts
    from derive.store.local import LocalStore

CONNECTIONS = 24
"""Connections that are answered at once; more wait. An engine that pulls opens up to ten."""
LOOPBACK = "127.0.0.1"
_SILENT_S = 90.0
"""After how long a connection on which nothing is asked for, or taken, is closed: engines keep some for that long."""
_PIECE = 1 << 20
_TLS, _GREETING = b"\x16", 1 << 16
_BLOB_TYPE = "application/octet-stream"
_REFUSED = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that is served: a file or bytes, its size, and its media type."""

    source: Path | bytes
    size: int
    media_type: str


Items: TypeAlias = Mapping[str, Item]
"""What is served, by path."""


@dataclass(slots=True, kw_only=True)
class Given:
    """What has gone out so far: bytes of blobs by digest, what was sent again counted again."""

    sent: dict[str, int] = field(default_factory=dict)
    most_connections: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def sent_bytes(self) -> int:
        """All bytes of blobs that were sent."""
        with self._lock:
            return sum(self.sent.values())

    def add(self, digest: str, count: int) -> None:
        """Count bytes of a blob."""
        with self._lock:
            self.sent[digest] = self.sent.get(digest, 0) + count

    def saw(self, connections: int) -> None:
        """Note how many connections there are."""
        with self._lock:
            self.most_connections = max(self.most_connections, connections)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A server at work: its port on 127.0.0.1, and what it gave."""

    port: int
    given: Given


def items_of(
    store: LocalStore, image: image_facts.ImageFacts, name: str, parts: Iterable[image_facts.Part] = ()
) -> Items:
    """Return what is served of an image, and of images of its lower layers; ``name`` is the repository's.

    Raises:
        Missing: when the store no longer holds one of the blobs.
    """
    own = image.manifest
    found = {
        f"/v2/{name}/blobs/{one.digest}": Item(source=store.blob_path(one.digest), size=one.size, media_type=_BLOB_TYPE)
        for one in image.blobs
    }
    found[f"/v2/{name}/manifests/{own.digest}"] = Item(
        source=store.blob_path(own.digest), size=own.size, media_type=own.media_type
    )
    for part in parts:
        config, manifest = part.config, part.manifest
        path = f"/v2/{name}/blobs/{part.config_digest}"
        found[path] = Item(source=config, size=len(config), media_type=_BLOB_TYPE)
        path = f"/v2/{name}/manifests/{part.digest}"
        found[path] = Item(source=manifest, size=len(manifest), media_type=own.media_type)
    return found


@contextmanager
def serving(items: Items, *, connections: int = CONNECTIONS) -> Iterator[Serving]:
    """Serve these on a free port of 127.0.0.1 until the context ends; what is being sent then is cut off."""
    doors = _Doors(items, connections)
    thread = threading.Thread(target=doors.open, name="images", daemon=True)
    thread.start()
    try:
        yield Serving(port=doors.port, given=doors.given)
    finally:
        doors.close()
        thread.join()


class _Doors:
    """A thread for each connection, up to a number; the next ones wait to be accepted."""

    def __init__(self, items: Items, connections: int) -> None:
        self.items = items
        self.given = Given()
        self._places = threading.BoundedSemaphore(connections)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        self._listener = socket.create_server((LOOPBACK, 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])

    def open(self) -> None:
        """Accept connections until somebody closes."""
        while True:
            self._places.acquire()
            try:
                connection, address = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_closed:
                    connection.close()
                    return
                self._open.add(connection)
                self.given.saw(len(self._open))
            threading.Thread(target=self._answer, args=(connection, address), daemon=True).start()

    def _answer(self, connection: socket.socket, address: object) -> None:
        try:
            # Who hangs up in the middle will ask again.
            with suppress(OSError):
                connection.settimeout(_SILENT_S)
                _Handler(connection, address, self)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()
            self._places.release()

    def close(self) -> None:
        """Accept no more, and end every connection that is open."""
        with self._lock:
            self._is_closed = True
            found = tuple(self._open)
        for one in (self._listener, *found):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # wakes whoever waits for it, which closing does not
        self._listener.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "derive", ""
    timeout = _SILENT_S
    disable_nagle_algorithm = True

    def __init__(self, connection: socket.socket, address: object, doors: _Doors) -> None:
        self._doors = doors
        super().__init__(connection, address, doors)  # type: ignore[arg-type]

    def handle(self) -> None:
        """Answer requests until the other side has none; a greeting of TLS is answered in plain words.

        An engine tries TLS first even on loopback. It goes on in plain HTTP once it has been answered so.
        """
        if self.connection.recv(1, socket.MSG_PEEK) == _TLS:
            self.connection.recv(_GREETING)
            self.connection.sendall(_REFUSED.encode())
            return
        super().handle()

    def do_GET(self) -> None:
        """Answer with what is asked for."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answer with what is said of it."""
        self._answer()

    def _answer(self) -> None:
        if "Transfer-Encoding" in self.headers or self.headers.get("Content-Length", "0") != "0":
            self.close_connection = True  # what follows is a body, and no request
        if self.path in ("/v2/", "/v2"):
            self._say(HTTPStatus.OK, b"{}")
            return
        item = self._doors.items.get(self.path)
        if item is None:
            self._say(HTTPStatus.NOT_FOUND, b'{"errors":[{"code":"NAME_UNKNOWN","message":"not served here"}]}')
            return
        part = part_of(self.headers.get("Range"), item.size)
        if part is None:
            self._head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, 0, {"Content-Range": f"bytes */{item.size}"})
            return
        self._head_of(item, part)
        if self.command == "GET":
            self._body(item, part)

    def _head_of(self, item: Item, part: Part) -> None:
        digest = self._digest()
        headers = {"Accept-Ranges": "bytes", "ETag": f'"{digest}"', "Docker-Content-Digest": digest}
        if part.is_partial:
            headers["Content-Range"] = f"bytes {part.start}-{part.start + part.size - 1}/{item.size}"
        status = HTTPStatus.PARTIAL_CONTENT if part.is_partial else HTTPStatus.OK
        self._head(status, part.size, headers, item.media_type)

    def _body(self, item: Item, part: Part) -> None:
        if isinstance(item.source, bytes):
            self.wfile.write(item.source[part.start : part.start + part.size])
            return
        with item.source.open("rb") as file:
            at, end = part.start, part.start + part.size
            while at < end:
                sent = self.connection.sendfile(file, at, min(_PIECE, end - at))
                if sent == 0:  # the file is shorter than it should be: the other side misses bytes, and says so
                    self.close_connection = True
                    return
                at += sent
                if "/blobs/" in self.path:
                    self._doors.given.add(self._digest(), sent)

    def _digest(self) -> str:
        return self.path.rpartition("/")[2]

    def _say(self, status: HTTPStatus, body: bytes) -> None:
        self._head(status, len(body), {"Docker-Distribution-API-Version": "registry/2.0"}, "application/json")
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, size: int, headers: Mapping[str, str], media_type: str | None = None) -> None:
        self.send_response(status)
        if media_type is not None:
            self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(size))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse another method, or what is no request, without a page of HTML, and close the connection."""
        del message, explain
        known = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else code
        self._head(known, 0, {"Allow": "GET, HEAD", "Connection": "close"})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """Say nothing: that an engine asks is no news."""
