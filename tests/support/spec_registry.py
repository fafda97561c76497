# SPDX-License-Identifier: Apache-2.0
"""A registry in memory that does what OCI's distribution specification allows, and docker-registry 2.8 does not.

It keeps what a broken connection brought of an upload, checks where each piece begins, and lists referrers by itself.

Edge: loopback sockets and threads.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from derive.canonical import sha256
from derive.images.oci import INDEX_TYPE

_UPLOADS = re.compile(r"/v2/(?P<name>.+)/blobs/uploads/(?P<key>[0-9a-f]*)")
_PATH = re.compile(r"/v2/(?P<name>.+)/(?P<kind>blobs|manifests|referrers)/(?P<named>[^/]+)")


@dataclass(slots=True)
class SpecRegistry:
    """What it holds. ``smallest`` is the fewest bytes of a piece that it takes, unless it is the last one."""

    smallest: int = 0
    host: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)  # by repository/named
    uploads: dict[str, bytearray] = field(default_factory=dict)
    pieces: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The root, without a closing slash."""
        return f"http://{self.host}"


@contextmanager
def spec_registry(*, smallest: int = 0) -> Iterator[SpecRegistry]:
    """Run one."""
    found = SpecRegistry(smallest=smallest)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"registry": found}))
    server.daemon_threads = True
    found.host = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a connection that breaks is no fault of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: SpecRegistry

    def do_GET(self) -> None:
        upload = _UPLOADS.fullmatch(urlsplit(self.path).path)
        if upload is not None:
            known = upload["key"] in self.registry.uploads
            self._progress(204, upload["key"]) if known else self._say(404)
            return
        match = _PATH.fullmatch(self.path)
        assert match is not None, self.path
        if match["kind"] == "referrers":
            self._say(200, _listing(self.registry, match["named"]), {"Content-Type": INDEX_TYPE})
        elif match["kind"] == "manifests" and self._key() in self.registry.manifests:
            kind, data = self.registry.manifests[self._key()]
            self._say(200, data, {"Content-Type": kind, "Docker-Content-Digest": str(sha256(data))})
        elif match["kind"] == "blobs" and match["named"] in self.registry.blobs:
            self._say(200, self.registry.blobs[match["named"]])
        else:
            self._say(404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        key = secrets.token_hex(8)
        self.registry.uploads[key] = bytearray()
        more = {"OCI-Chunk-Min-Length": str(self.registry.smallest)} if self.registry.smallest else {}
        self._say(202, headers={"Location": f"{urlsplit(self.path).path}{key}", "Range": "0-0", **more})

    def do_PATCH(self) -> None:
        key = self.path.rpartition("/")[2]
        data = self.registry.uploads.get(key)
        start = int(self.headers["Content-Range"].partition("-")[0])
        if data is None or start != len(data):
            self._drain()
            self._say(404 if data is None else 416)
            return
        before = len(data)
        whole = self._take(data)
        self.registry.pieces.append(len(data) - before)
        if whole:
            self._progress(202, key)
        else:
            self.close_connection = True

    def do_PUT(self) -> None:
        parts = urlsplit(self.path)
        upload = _UPLOADS.fullmatch(parts.path)
        body = bytearray()
        if not self._take(body):
            self.close_connection = True
            return
        if upload is None:
            self._put_manifest(bytes(body))
            return
        data = self.registry.uploads.pop(upload["key"], None)
        digest = parse_qs(parts.query)["digest"][0]
        if data is None or str(sha256(bytes(data + body))) != digest:
            self._say(404 if data is None else 400, b'{"errors":[{"code":"DIGEST_INVALID","message":"no"}]}')
            return
        self.registry.blobs[digest] = bytes(data + body)
        self._say(201, headers={"Docker-Content-Digest": digest})

    def _put_manifest(self, data: bytes) -> None:
        named = self._key().rpartition("/")[2]
        if (named.startswith("sha256:") and named != str(sha256(data))) or not _is_json(data):
            self._say(400, b'{"errors":[{"code":"MANIFEST_INVALID"}]}')
            return
        entry = (self.headers["Content-Type"], data)
        name = self._key().rpartition("/")[0]
        self.registry.manifests[self._key()] = self.registry.manifests[f"{name}/{sha256(data)}"] = entry
        subject = json.loads(data).get("subject")
        self._say(201, headers={"OCI-Subject": subject["digest"]} if subject else {})

    def _key(self) -> str:
        """Return repository and tag or digest of a manifest's URL."""
        return self.path.removeprefix("/v2/").replace("/manifests/", "/")

    def _progress(self, status: int, key: str) -> None:
        size = len(self.registry.uploads[key])
        place = urlsplit(self.path).path.rpartition("/")[0] + f"/{key}"
        self._say(status, headers={"Location": place, "Range": f"0-{max(0, size - 1)}"})

    def _take(self, into: bytearray) -> bool:
        left = int(self.headers.get("Content-Length") or 0)
        while left and (piece := self.rfile.read1(min(left, 1 << 16))):
            into += piece
            left -= len(piece)
        return not left

    def _drain(self) -> None:
        self._take(bytearray())

    def _say(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, text in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        del format, args


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def _listing(registry: SpecRegistry, subject: str) -> bytes:
    entries = []
    for named, (kind, data) in sorted(registry.manifests.items()):
        document = json.loads(data)
        digest = named.rpartition("/")[2]
        if digest.startswith("sha256:") and document.get("subject", {}).get("digest") == subject:
            entries.append({"mediaType": kind, "digest": digest, "size": len(data)})
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}).encode()
