# SPDX-License-Identifier: Apache-2.0
"""A loopback mirror that serves a project's locked artifacts out of a store that has them.

It speaks what the real ones speak: pool paths for Debian, the simple JSON API for wheels.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


class Mirror:
    """A running mirror. ``requests`` are the paths asked for; ``gone`` are paths answered with 404."""

    def __init__(self, files: Mapping[str, Path], pages: Mapping[str, bytes]) -> None:
        self.files = files
        self.pages = pages
        self.requests: list[str] = []
        self.gone: set[str] = set()
        self.port = 0

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make derive use this mirror."""
        base = f"http://127.0.0.1:{self.port}"
        return {"DERIVE_MIRROR_DEBIAN": f"{base}/debian", "DERIVE_MIRROR_PYTHON": f"{base}/simple"}


@contextmanager
def mirror_of(project: Path, store: Path) -> Iterator[Mirror]:
    """Serve every locked artifact of a project that lies in a store."""
    files: dict[str, Path] = {}
    wheels: dict[str, list[dict[str, object]]] = {}
    for lock in sorted((project / "lock").glob("*.lock.json")):
        document = json.loads(lock.read_text())
        if document["kind"] == "upstreams":
            continue  # their own servers serve them
        for entry in document["entries"]:
            for part in entry.get("files", [entry]):
                blob = store / "blobs" / "sha256" / part["sha256"]
                if entry["type"] == "wheel":
                    files[f"/files/{part['file']}"] = blob
                    link = {
                        "filename": part["file"],
                        "url": f"../../files/{part['file']}",
                        "hashes": {"sha256": part["sha256"]},
                        "size": part["size"],
                    }
                    wheels.setdefault(entry["name"], []).append(link)
                else:
                    files[f"/debian/{part['locator']}"] = blob
    pages = {
        f"/simple/{name}/": json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": links}).encode()
        for name, links in wheels.items()
    }
    mirror = Mirror(files, pages)
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(mirror)) as server:
        mirror.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield mirror
        finally:
            server.shutdown()
            thread.join()


def _handler(mirror: Mirror) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(self.path)
            mirror.requests.append(path)
            data = mirror.pages.get(path)
            kind = "application/vnd.pypi.simple.v1+json"
            if data is None and path in mirror.files and path not in mirror.gone and mirror.files[path].exists():
                data, kind = mirror.files[path].read_bytes(), "application/octet-stream"
            self.send_response(200 if data is not None else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *_: object) -> None:
            """Stay silent: tests read standard error."""

    return Handler
