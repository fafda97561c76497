# SPDX-License-Identifier: Apache-2.0
"""An engine that makes no container: it answers Docker's command line as far as the request to make one, and keeps it.

Edge: a thread, a socket of this machine, processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_VERSION = {"ApiVersion": "1.45", "MinAPIVersion": "1.24", "Version": "26.1.5", "Os": "linux", "Arch": "arm64"}


@dataclass(slots=True)
class Engine:
    """What was asked of the engine: each container's name and the body of the request to make it."""

    socket: Path
    created: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """Run a client against this engine and return what it said."""
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.socket.parent),
            "DOCKER_HOST": f"unix://{self.socket}",
            **(environment or {}),
        }
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    def one(self) -> tuple[str, dict[str, Any]]:
        """Return the only container that was asked for, and forget it."""
        assert len(self.created) == 1, self.asked
        return self.created.pop()


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    engine: Engine


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(200, {})

    def do_GET(self) -> None:
        path = self._noted()
        if path.endswith("/version"):
            self._answer(200, _VERSION)
        elif path.endswith("/info"):
            self._answer(200, {"OSType": "linux", "Architecture": "aarch64", "ServerVersion": "26.1.5"})
        elif "/images/" in path and path.endswith("/json"):
            self._answer(200, {"Id": "sha256:" + "0" * 64, "Os": "linux", "Architecture": "arm64", "Config": {}})
        elif path.endswith(("/containers/json", "/networks", "/volumes")):
            self._answer(200, [])
        else:
            self._answer(404, {"message": "not here"})

    def do_POST(self) -> None:
        path = self._noted()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or self._chunks()
        if path.endswith("/containers/create"):
            name = parse_qs(urlsplit(self.path).query).get("name", [""])[0]
            self.server.engine.created.append((name, json.loads(body)))
        self._answer(500, {"message": "nothing is made here"})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that is inherited
        """Say nothing."""

    def _noted(self) -> str:
        path = unquote(urlsplit(self.path).path)
        self.server.engine.asked.append(f"{self.command} {path}")
        return path

    def _chunks(self) -> bytes:
        data = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
        return data

    def _answer(self, code: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Api-Version", "1.45")
        self.send_header("Ostype", "linux")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def address_string(self) -> str:
        return "local"


@contextmanager
def keeping_engine(folder: Path) -> Iterator[Engine]:
    """Run such an engine on a socket in a folder."""
    engine = Engine(folder / "engine.sock")
    server = _Server(str(engine.socket), _Handler)
    server.engine = engine
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield engine
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
