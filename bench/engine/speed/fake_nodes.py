# SPDX-License-Identifier: Apache-2.0
"""Fake nodes, many of them in this process: asyncssh's server in place of sshd, and an engine that only pulls.

Edge: loopback sockets, processes. Programs that a node is told to run are run here, for real; its engine knows an image
once it has fetched, and hashed, every blob of it through the node's own connection.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncssh

from derive.deploy.ssh_config import SshSettings

if TYPE_CHECKING:
    from derive.fabric.site import Site

_HOST = """\
Host {name}
  HostName 127.0.0.1
  Port {port}
  HostKeyAlias node
  UserKnownHostsFile {folder}/known
  IdentityFile {folder}/key
"""
_VERSION = {"Version": "26.1.5", "ApiVersion": "1.45", "MinAPIVersion": "1.24"}
_INFO = {"Driver": "overlayfs", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]], "DockerRootDir": "/"}


@dataclass(slots=True)
class Crowd:
    """How many nodes are at the same thing at the same time: ``now``, and ``most`` that ever were."""

    now: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)

    def begin(self, what: str) -> None:
        """Count one more."""
        self.now[what] += 1
        self.most[what] = max(self.most[what], self.now[what])

    @contextmanager
    def at(self, what: str) -> Iterator[None]:
        """Count one for as long as that takes."""
        self.begin(what)
        try:
            yield
        finally:
            self.now[what] -= 1


@dataclass(slots=True)
class FakeNode:
    """One of them: the port that it led to the operator's machine, and the images that its engine has.

    ``connections`` is how many it ever had. All share the ``crowd``: of ``connecting`` and ``pulling``.
    """

    name: str
    crowd: Crowd
    connections: int = 0
    port: int = 0
    images: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request to the engine."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        url = urlsplit(head.split()[1])
        path = unquote("/" + url.path.split("/", 2)[2] if url.path.startswith("/v1.") else url.path)
        body = await self._body(path, parse_qs(url.query))
        status = "404 Not Found" if body is None else "200 OK"
        data = json.dumps({"message": "no such thing"} if body is None else body).encode()
        words = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(f"{words}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        writer.close()

    async def _body(self, path: str, query: dict[str, list[str]]) -> object:
        if path == "/images/create":
            with self.crowd.at("pulling"):
                return await self._pull(query["fromImage"][0], query["tag"][0])
        if path == "/containers/json":
            return []
        if path == "/images/json":
            return [] if "filters" in query else list(self.images.values())
        if path.startswith("/images/"):
            return self.images.get(path.removeprefix("/images/").removesuffix("/json"))
        return {"/version": _VERSION, "/info": _INFO}.get(path)

    async def _pull(self, repository: str, digest: str) -> object:
        name = repository.partition("/")[2]
        manifest = json.loads(await self._get(f"/v2/{name}/manifests/{digest}", digest))
        config_digest = manifest["config"]["digest"]
        config = json.loads(await self._get(f"/v2/{name}/blobs/{config_digest}", config_digest))
        for layer in manifest["layers"]:
            await self._get(f"/v2/{name}/blobs/{layer['digest']}", layer["digest"])
        self.images[digest] = {
            "Id": digest,
            "RepoTags": [],
            "RepoDigests": [f"{repository}@{digest}"],
            "RootFS": {"Layers": config["rootfs"]["diff_ids"]},
            "Os": config["os"],
            "Architecture": config["architecture"],
            "Size": 0,
        }
        return {"status": "pulled"}

    async def _get(self, path: str, digest: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: head\r\nConnection: close\r\n\r\n".encode())
        _, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
        writer.close()
        assert f"sha256:{hashlib.sha256(body).hexdigest()}" == digest, f"{self.name} got other bytes of {path}"
        return body


class _Server(asyncssh.SSHServer):
    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._node.connections += 1
        self._node.crowd.begin("connecting")

    def begin_auth(self, username: str) -> bool:
        del username
        return False

    def auth_completed(self) -> None:
        self._node.crowd.now["connecting"] -= 1

    def unix_connection_requested(self, dest_path: str) -> Any:
        del dest_path
        return self._node.answer

    async def server_requested(self, listen_host: str, listen_port: int) -> asyncssh.SSHListener:
        # All nodes share one loopback: each gets a port of its own in place of the one that all ask for.
        assert self._connection is not None
        listener = await self._connection.forward_local_port("127.0.0.1", 0, listen_host, listen_port)
        self._node.port = listener.get_port()
        return listener


@dataclass(slots=True)
class _Programs:
    """Runs what nodes are told to.

    With ``once``, what several are told alike but for their names runs once, and each gets that answer with its name.
    """

    once: bool
    answers: dict[tuple[str, bytes], tuple[bytes, asyncio.Task[tuple[bytes, bytes, int]]]] = field(default_factory=dict)

    async def serve(self, name: bytes, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Answer one request of a node."""
        assert process.command is not None
        # What a program is given begins with its length: a caller may keep its input open until it has answered.
        size = await process.stdin.readline()
        given = await process.stdin.readexactly(int(size)) if size else b""
        key = (process.command, given.replace(name, b"?") if self.once else given)
        if not self.once or key not in self.answers:
            self.answers[key] = (name, asyncio.create_task(_run(process.command, size + given)))
        told, task = self.answers[key]
        out, err, code = await asyncio.shield(task)
        process.stdout.write(out.replace(told, name))
        process.stderr.write(err)
        process.exit(code)


async def _run(command: str, given: bytes) -> tuple[bytes, bytes, int]:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_shell(command, stdin=pipe, stdout=pipe, stderr=pipe)
    assert child.stdin is not None
    child.stdin.write(given)
    if not given:
        child.stdin.close()
    out, err = await asyncio.gather(_all_of(child.stdout), _all_of(child.stderr))
    code = await child.wait()
    child.stdin.close()
    return out, err, code


async def _all_of(stream: asyncio.StreamReader | None) -> bytes:
    return b"" if stream is None else await stream.read()


@asynccontextmanager
async def fake_nodes(
    site: Site, folder: Path, *, once: bool = False
) -> AsyncIterator[tuple[SshSettings, dict[str, FakeNode]]]:
    """Run a fake node for each node of a site; yields how SSH gets there, and the nodes by name.

    All are this machine: with ``once``, a program that all are told to run runs once, and each gets its answer.
    """
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(folder / "key")
    (folder / "known").write_text(f"node {key.export_public_key().decode()}")
    crowd, programs = Crowd(), _Programs(once)
    nodes = {node.name: FakeNode(node.name, crowd) for node in site.nodes}
    listeners = [
        await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=lambda node=node: _Server(node),
            server_host_keys=[key],
            process_factory=partial(programs.serve, f'"{node.name}"'.encode()),
            encoding=None,
        )
        for node in nodes.values()
    ]
    ports = zip(nodes, (listener.get_port() for listener in listeners), strict=True)
    (folder / "config").write_text("".join(_HOST.format(name=name, port=port, folder=folder) for name, port in ports))
    try:
        yield SshSettings(files=(folder / "config",)), nodes
    finally:
        for listener in listeners:
            listener.close()
            await listener.wait_closed()
