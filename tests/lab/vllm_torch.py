# SPDX-License-Identifier: Apache-2.0
"""The CPU build of torch, which pip's find-links serve and no index: found, offered to a build by hash, and to a lock.

Edge: pip as a subprocess, files, a loopback server.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WANTED = "torch==2.13.0+cpu"
_FILE = "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
_UPLOADED = "2026-09-01T00:00:00Z"
"""A resolver that is told to take nothing newer than a day asks for a day."""


def find_torch(folder: Path) -> Path | None:
    """Let pip bring the wheel into a folder, wherever its settings say that it lies; None where it finds none."""
    kept = folder / _FILE
    if kept.is_file():
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    target = ["--python-version=3.11", "--implementation=cp", "--abi=cp311", "--platform=manylinux_2_28_x86_64"]
    ask = ["download", "--quiet", "--no-deps", "--only-binary=:all:", *target, f"--dest={folder}", WANTED]
    subprocess.run([sys.executable, "-m", "pip", *ask], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return kept if kept.is_file() else None


def sha256_of(file: Path) -> str:
    """Return the hash of a file as 64 hex digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def offer(file: Path, archive: Path) -> Path:
    """Give a file a place in an archive by hash, as ``DERIVE_ARCHIVES`` names one; return the archive's folder."""
    place = archive / "blobs/sha256" / sha256_of(file)
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        place.symlink_to(file.resolve())
    return archive


@contextlib.contextmanager
def index_with(file: Path) -> Iterator[str]:
    """Serve a package index on loopback that has this one file; yield its URL. Only a lock is made with it."""
    page = {
        "meta": {"api-version": "1.1"},
        "name": "torch",
        "versions": [WANTED.partition("==")[2]],
        "files": [
            {
                "filename": file.name,
                "url": f"../../files/{file.name.replace('+', '%2B')}",
                "hashes": {"sha256": sha256_of(file)},
                "size": file.stat().st_size,
                "upload-time": _UPLOADED,
            }
        ],
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.rstrip("/") == "/simple/torch":
                self._send(json.dumps(page).encode(), "application/vnd.pypi.simple.v1+json")
            elif self.path.startswith("/files/"):
                self._send_file()
            else:
                self.send_error(404)

        do_HEAD = do_GET  # noqa: N815 - the names of http.server

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of http.server
            pass

        def _send(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def _send_file(self) -> None:
            size = file.stat().st_size
            first, last = _span(self.headers.get("Range"), size)
            part = (first, last) != (0, size - 1)
            self.send_response(206 if part else 200)
            if part:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(last - first + 1))
            self.end_headers()
            if self.command == "GET":
                with file.open("rb") as stream:
                    stream.seek(first)
                    self.wfile.write(stream.read(last - first + 1))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    finally:
        server.shutdown()
        server.server_close()


def _span(header: str | None, size: int) -> tuple[int, int]:
    """Return the first and last byte that a Range header asks for; all where there is none."""
    if header is None or not header.startswith("bytes="):
        return 0, size - 1
    first, _, last = header.removeprefix("bytes=").partition("-")
    if not first:
        return max(0, size - int(last)), size - 1
    return int(first), min(int(last), size - 1) if last else size - 1
