# SPDX-License-Identifier: Apache-2.0
"""What a real registry sends when many nodes pull one new layer at once, directly and through a mirror beside them.

Edge: processes, loopback sockets, threads.

The mirror is the same program, told to fetch what it lacks from the first, by way of a relay that counts bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import requests

PROGRAM = "docker-registry"
_START_S = 20.0
_PIECE = 1 << 16
_REPOSITORY = "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """Until the last of the nodes had it, and what the registry sent for it over how many connections."""

    wall_ns: int
    registry_bytes: int
    registry_connections: int


class Relay:
    """Leads connections to a port, and counts them and the bytes that come back."""

    def __init__(self, target: int) -> None:
        self.bytes = 0
        self.connections = 0
        self._target = target
        self._guard = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection(("127.0.0.1", self._target))
                with self._guard:
                    self.connections += 1
                for source, sink, counts in ((here, there, False), (there, here, True)):
                    threading.Thread(target=self._copy, args=(source, sink, counts), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE):
                sink.sendall(data)
                if counts:
                    with self._guard:
                        self.bytes += len(data)
            sink.shutdown(socket.SHUT_WR)


def lacking() -> str | None:
    """Return why it cannot be measured here, or None."""
    return None if shutil.which(PROGRAM) is not None else f"no {PROGRAM} on this machine"


def measure(nodes: int, size: int, folder: Path) -> dict[str, Pulled]:
    """Push a layer, and have all nodes pull it at once: from the registry, from mirrors that lack it and that have it.

    The latter was made to fetch it by a single node, whose time and bytes count.
    """
    with _registry(folder / "first") as port:
        digest = _push(port, size)
        relay = Relay(port)
        try:
            direct = _pull(nodes, size, digest, relay.port, relay)
            relay.bytes = relay.connections = 0
            with _registry(folder / "mirror", f"http://127.0.0.1:{relay.port}") as mirror:
                through = _pull(nodes, size, digest, mirror, relay)
            relay.bytes = relay.connections = 0
            with _registry(folder / "asked-once", f"http://127.0.0.1:{relay.port}") as mirror:
                first = _pull(1, size, digest, mirror, relay)
                _settle(relay)
                rest = _pull(nodes - 1, size, digest, mirror, relay)
        finally:
            relay.close()
    filled = replace(rest, wall_ns=first.wall_ns + rest.wall_ns)
    return {"direct": direct, "mirror": through, "mirror_filled_by_one": filled}


def _settle(relay: Relay) -> None:
    """Wait until a mirror has written what it fetched: it does so after it has answered."""
    seen = -1
    while seen != relay.bytes:
        seen = relay.bytes
        time.sleep(1)


def _pull(nodes: int, size: int, digest: str, port: int, relay: Relay) -> Pulled:
    def one(_: int) -> None:
        got = hashlib.sha256()
        url = f"http://127.0.0.1:{port}/v2/{_REPOSITORY}/blobs/{digest}"
        with requests.get(url, stream=True, timeout=300) as answer:
            answer.raise_for_status()
            for piece in answer.iter_content(1 << 20):
                got.update(piece)
        if f"sha256:{got.hexdigest()}" != digest:
            raise ValueError(f"other bytes than were asked for, of {size}")

    started = time.monotonic_ns()
    with ThreadPoolExecutor(nodes) as pool:
        list(pool.map(one, range(nodes)))
    return Pulled(
        wall_ns=time.monotonic_ns() - started, registry_bytes=relay.bytes, registry_connections=relay.connections
    )


def _push(port: int, size: int) -> str:
    data = bytes(hashlib.shake_128(b"layer").digest(1 << 20)) * (size >> 20)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    base = f"http://127.0.0.1:{port}/v2/{_REPOSITORY}"
    begun = requests.post(f"{base}/blobs/uploads/", timeout=60)
    begun.raise_for_status()
    place = begun.headers["Location"]
    url = place if place.startswith("http") else f"http://127.0.0.1:{port}{place}"
    mark = "&" if "?" in url else "?"
    requests.put(f"{url}{mark}digest={digest}", data=data, timeout=300).raise_for_status()
    _push_manifest(base, digest, len(data))
    return digest


def _push_manifest(base: str, digest: str, size: int) -> None:
    """Name the layer in a manifest: a mirror asks for what it is to serve by these."""
    config = b"{}"
    begun = requests.post(f"{base}/blobs/uploads/", timeout=60)
    own = f"sha256:{hashlib.sha256(config).hexdigest()}"
    place = begun.headers["Location"]
    url = place if place.startswith("http") else base.partition("/v2/")[0] + place
    requests.put(f"{url}{'&' if '?' in url else '?'}digest={own}", data=config, timeout=60).raise_for_status()
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": {"mediaType": f"{kind}.config.v1+json", "digest": own, "size": len(config)},
        "layers": [{"mediaType": f"{kind}.layer.v1.tar", "digest": digest, "size": size}],
    }
    answer = requests.put(
        f"{base}/manifests/new",
        data=json.dumps(manifest),
        headers={"Content-Type": f"{kind}.manifest.v1+json"},
        timeout=60,
    )
    answer.raise_for_status()


@contextlib.contextmanager
def _registry(folder: Path, upstream: str = "") -> Iterator[int]:
    """Run a registry; with an upstream it is a mirror of that."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    lines = [
        "version: 0.1",
        "log: {level: error, accesslog: {disabled: true}}",
        f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}",
        f"http: {{addr: '127.0.0.1:{port}', secret: bench}}",
        *([f"proxy: {{remoteurl: '{upstream}'}}"] if upstream else []),
    ]
    (folder / "config.yml").write_text("\n".join(lines) + "\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([PROGRAM, "serve", str(folder / "config.yml")], stdout=log, stderr=log)
    try:
        until = time.monotonic() + _START_S
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((folder / "log").read_text()[-2000:])
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    with contextlib.suppress(requests.RequestException):
        return requests.get(f"http://127.0.0.1:{port}/v2/", timeout=5).ok
    return False
