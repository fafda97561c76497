# SPDX-License-Identifier: Apache-2.0
"""A container engine's socket that lists the containers a test says run, and memory that a test takes.

Edge: a Unix socket, threads, memory.
"""

from __future__ import annotations

import json
import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path


class Listed:
    """What runs, by name with its labels; ``broken`` makes the engine answer that it cannot."""

    def __init__(self, socket: Path) -> None:
        self.socket = str(socket)
        self.running: dict[str, list[str]] = {}
        self.broken = False


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def listing_engine(socket: Path) -> Iterator[Listed]:
    """Serve what runs on a socket."""
    listed = Listed(socket)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = [
                {"Names": [f"/{name}"], "Labels": dict.fromkeys(keys, "")} for name, keys in listed.running.items()
            ]
            body = json.dumps(found).encode()
            self.send_response(500 if listed.broken else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

        def address_string(self) -> str:
            return "socket"

    with _Server(str(socket), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield listed
        finally:
            server.shutdown()
            thread.join()


def available_bytes() -> int:
    """Return the memory that is available on this machine now."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])


def take_memory_until(condition: Callable[[], bool], most: int = 4 << 30, step: int = 128 << 20) -> int:
    """Take memory, more and more, until something is so, and give it back; returns how much it took."""
    held: list[bytearray] = []
    page = os.sysconf("SC_PAGE_SIZE")
    try:
        while not condition():
            if len(held) * step >= most:
                raise AssertionError(f"not so with {most >> 20} MiB taken")
            block = bytearray(step)
            block[::page] = b"\x01" * len(range(0, step, page))
            held.append(block)
            time.sleep(0.03)
        return len(held) * step
    finally:
        held.clear()


def wait_for(condition: Callable[[], bool], seconds: float = 15) -> None:
    """Wait for something that another thread or process does."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError("it did not happen")
        time.sleep(0.01)
