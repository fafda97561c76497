# SPDX-License-Identifier: Apache-2.0
"""Nodes that are a real Docker engine and a real sshd in network namespaces of their own; the rest is this machine's.

Edge: starts processes, mounts, namespaces; needs root.

No network leads to a node: whoever connects to its port of this machine's loopback is handed to an sshd that was
started inside, as inetd would. Its loopback is its own. Its engine's data lie in memory, on a file system whose size
may be changed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from derive.deploy.image_facts import PART_LABEL
from derive.deploy.ssh_config import SshSettings
from derive.fabric.site import Site
from support.docker_engine import DockerEngine, ImageStore, default_binaries, docker_engine, why_unavailable
from support.fabrics import example_site
from support.node_programs import PATH
from support.require import skip_or_fail

_SSHD = """\
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PermitRootLogin yes
SetEnv HOME={folder} PATH={path}
"""
_CLIENT = """\
Host {name}
  HostName 127.0.0.1
  Port {port}
  HostKeyAlias node
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
"""


STORES = {"spark1": ImageStore.OVERLAY2, "spark2": ImageStore.CONTAINERD}
"""The nodes, and where the engine of each keeps images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineNodes:
    """The nodes' site and how SSH gets there; ``engines`` by the nodes' names, whose data lie below ``disk``."""

    site: Site
    settings: SshSettings
    engines: dict[str, DockerEngine]
    disk: Path
    sshds: dict[str, list[subprocess.Popen[bytes]]]

    def only(self, name: str) -> EngineNodes:
        """Return one of the nodes, as a site."""
        nodes = tuple(node for node in self.site.nodes if node.name == name)
        return replace(self, site=replace(self.site, nodes=nodes))

    def cut(self, name: str) -> None:
        """End a node's connections at once, without a word."""
        self._signal(name, signal.SIGKILL)

    @contextlib.contextmanager
    def silent(self, name: str) -> Iterator[None]:
        """Have nothing come through a node's connections for as long as this lasts; they end with it."""
        self._signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.cut(name)

    def _signal(self, name: str, number: int) -> None:
        for process in self.sshds[name]:
            for pid in _family(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def parts(self, name: str) -> list[str]:
        """Return the images of a node's engine that are there for a while only."""
        found = self.engines[name].client.api.images(filters={"label": PART_LABEL})
        return [str(one["Id"]) for one in found]

    def await_part(self, name: str) -> None:
        """Wait until there is such an image."""
        deadline = time.monotonic() + 60
        while not self.parts(name):
            assert time.monotonic() < deadline, "no part of the image came"
            time.sleep(0.05)

    def resize(self, size: str) -> None:
        """Give the disk of all engines another size, as mount writes it."""
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.disk)], check=True)

    def docker(self, name: str, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run Docker's own command against a node's engine."""
        command = [str(default_binaries() / "bin/docker"), "--host", self.engines[name].url, *argv]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@contextlib.contextmanager
def engine_nodes(folder: Path) -> Iterator[EngineNodes]:
    """Run a node for each kind of image store: the first nodes of the example of a triangle."""
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    if not Path("/usr/sbin/sshd").exists():
        skip_or_fail("nodes need sshd: install openssh-server")
    _keys(folder)
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(_disk(folder / "d"))
        example = example_site("triangle")
        names = [node.name for node in example.nodes[: len(STORES)]]
        engines = {
            name: stack.enter_context(docker_engine(store=store, binaries=default_binaries(), parent=disk))
            for name, store in STORES.items()
        }
        sshds: dict[str, list[subprocess.Popen[bytes]]] = {name: [] for name in names}
        ports = {name: stack.enter_context(_sshd(folder, _entered(one), sshds[name])) for name, one in engines.items()}
        lines = [_CLIENT.format(name=name, folder=folder, port=port) for name, port in ports.items()]
        (folder / "config").write_text("".join(lines))
        site = replace(
            example,
            ssh_user="root",
            nodes=tuple(replace(one, ssh_host=one.name) for one in example.nodes[: len(names)]),
        )
        settings = SshSettings(files=(folder / "config",))
        yield EngineNodes(site=site, settings=settings, engines=engines, disk=disk, sshds=sshds)


def _keys(folder: Path) -> None:
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    (folder / "known").write_text(f"node {(folder / 'host.pub').read_text()}")
    (folder / "sshd").write_text(_SSHD.format(folder=folder, path=PATH))


@contextlib.contextmanager
def _sshd(folder: Path, pid: int, started: list[subprocess.Popen[bytes]]) -> Iterator[int]:
    """Start an sshd among the namespaces of a process for each connection to a port; yields the port."""
    enter = ["nsenter", "--target", str(pid), "--mount", "--net"]
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                end = connection.fileno()
                command = [*enter, "/usr/sbin/sshd", "-i", "-f", str(folder / "sshd")]
                started.append(subprocess.Popen(command, stdin=end, stdout=end, stderr=subprocess.DEVNULL))

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for process in started:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3g", "derive-test", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _entered(engine: DockerEngine) -> int:
    """Return a process of the engine's namespaces, after making there what a machine has."""
    pid = next(
        int(place.parent.name)
        for place in Path("/proc").glob("[0-9]*/cmdline")
        if _is_engine(place, str(engine.folder))
    )
    enter = ["nsenter", "--target", str(pid), "--mount", "--net"]
    script = f"ip link set lo up; mkdir -p /run/sshd; ln -s {engine.folder}/docker.sock /run/docker.sock"
    subprocess.run([*enter, "sh", "-ec", script], check=True)
    return pid


def _family(pid: int) -> list[int]:
    """Return a process and all below it."""
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(one for child in children for one in _family(int(child)))]
    return []


def _is_engine(place: Path, folder: str) -> bool:
    with contextlib.suppress(OSError):
        words = place.read_bytes().split(b"\0")
        return words[0].endswith(b"dockerd") and any(folder.encode() in word for word in words)
    return False
