# SPDX-License-Identifier: Apache-2.0
"""A site on one machine: nodes with their cables, engines and SSH, and what can go wrong with them.

Real: namespaces, systemd, sshd, lldpd, Docker, interfaces, addresses, MTU, carrier, disks. FAKE: RDMA devices, amounts
of memory, the ids of boots (see ``lab.seed``); and all nodes share one kernel, one clock and its processors.

Edge: starts processes, mounts, networks; needs root.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from lab import fabric, ground
from lab.ground import Ground, LabError, do, locked
from lab.host import Host, Running
from lab.places import FOLDER, OPERATOR, PROJECT, STORE, Cable, Cabling, HostKind, cables, names
from lab.seed import MEMORY_FREE, meminfo
from speed.private_docker import default_binaries
from speed.private_docker import why_unavailable as why_no_engine
from support.cli import SOURCES, Ran, command

if TYPE_CHECKING:
    import docker

__all__ = ["Lab", "LabError", "attached", "lab", "why_unavailable"]

_STATE = FOLDER / "lab.json"


@dataclass(slots=True)
class Lab:
    """A site whose nodes are up. Names of nodes are spark1, spark2, ...; spark1 is the head."""

    ground: Ground
    cabling: Cabling
    hosts: Mapping[str, Host]

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes by rank."""
        return tuple(self.hosts)

    @property
    def head(self) -> str:
        """The node of rank 0, on which the operator runs ``derive``."""
        return self.names[0]

    def run(
        self,
        node: str,
        argv: Sequence[str],
        *,
        user: str = OPERATOR,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = 300,
    ) -> Ran:
        """Run a command on a node, as the operator or as root, whether or not it can be reached by SSH."""
        return self.hosts[node].run(argv, user=user, cwd=cwd, env=env, stdin=stdin, timeout_s=timeout_s)

    def derive(self, *arguments: str, env: Mapping[str, str] | None = None, timeout_s: float = 300) -> Ran:
        """Run a ``derive`` command on the head as the operator, in the lab's project."""
        return self.run(
            self.head, command(*arguments), cwd=self._folder(), env=self._settings(env), timeout_s=timeout_s
        )

    def derive_argv(self, *arguments: str, env: Mapping[str, str] | None = None) -> list[str]:
        """Return the argv, on this machine, of such a command."""
        return self.hosts[self.head].inside(command(*arguments), cwd=self._folder(), env=self._settings(env))

    def start(
        self, *arguments: str, env: Mapping[str, str] | None = None, stdout: int | IO[bytes] = subprocess.PIPE
    ) -> Running:
        """Start a ``derive`` command on the head as the operator; standard error goes where standard output goes."""
        argv = self.derive_argv(*arguments, env=env)
        return Running(
            subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.STDOUT, process_group=0)
        )

    def _settings(self, env: Mapping[str, str] | None) -> dict[str, str]:
        return {"PYTHONPATH": str(SOURCES), "DERIVE_STORE": str(STORE), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}

    def _folder(self) -> Path | None:
        return PROJECT if (self.hosts[self.head].root / PROJECT.relative_to("/")).exists() else None

    def shell(self, node: str, *, user: str = OPERATOR) -> int:
        """Give a person a shell on a node."""
        here = node == self.head and user == OPERATOR
        env = {**self._settings(None), "TERM": os.environ.get("TERM", "dumb")}
        env["PATH"] = f"{Path(command()[0]).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        argv = self.hosts[node].inside(["bash"], user=user, env=env, cwd=self._folder() if here else None)
        return subprocess.run(argv, check=False).returncode

    @contextlib.contextmanager
    def engine(self, node: str) -> Iterator[docker.DockerClient]:
        """Give a client of a node's engine that goes by none of the ways that the product uses."""
        import docker

        client = docker.DockerClient(base_url=f"unix://{self.hosts[node].root}/run/docker.sock", timeout=60)
        try:
            yield client
        finally:
            client.close()

    def kill(self, node: str) -> None:
        """Take a node's power away: its neighbours see no carrier."""
        self.hosts[node].kill()
        fabric.power(self.ground, node, self.cabling, on=False)

    def boot(self, node: str) -> None:
        """Give a node power again, and wait until it is up; its disk is as it was."""
        fabric.power(self.ground, node, self.cabling, on=True)
        self.hosts[node].start()
        self.hosts[node].wait()

    def cut(self, one: str, other: str) -> None:
        """Pull the cable between two nodes out."""
        fabric.pull(self.ground, self._cable(one, other), out=True)

    def mend(self, one: str, other: str) -> None:
        """Put that cable in again."""
        fabric.pull(self.ground, self._cable(one, other), out=False)

    def _cable(self, one: str, other: str) -> Cable:
        for cable in cables(self.cabling):
            if set(cable.ends) == {one, other}:
                return cable
        raise LabError(f"no cable is between {one} and {other}")

    def starve(self, node: str, available: int = 1 << 30) -> None:
        """Let a node say that it has so few bytes of memory to be had. FAKE: nothing is taken."""
        (self.hosts[node].folder / "fakes/meminfo").write_text(meminfo(available))

    def feed(self, node: str) -> None:
        """Let it say again that there is plenty."""
        self.starve(node, MEMORY_FREE)

    def fill(self, node: str, left: int = 16 << 20) -> None:
        """Fill a node's disk but for so many bytes; it holds its engine's images, and the site's folder."""
        place = self.hosts[node].root / "var/lib"
        there = os.statvfs(place)
        size = there.f_bavail * there.f_frsize - left
        do(["fallocate", "--length", str(max(size, 1)), str(place / "filled")])

    def empty(self, node: str) -> None:
        """Take away what filled it."""
        (self.hosts[node].root / "var/lib/filled").unlink()

    def drop_ssh(self, node: str) -> None:
        """Break every SSH connection to a node at once; new ones are accepted."""
        for pid in ground.pids(ground.group(node)):
            with contextlib.suppress(OSError):
                if Path("/proc", str(pid), "cmdline").read_bytes().startswith(b"sshd: operator"):
                    os.kill(pid, signal.SIGKILL)

    def break_ssh(self, node: str) -> None:
        """Take a node off the management network: connections hang, and no new one is made."""
        fabric.management(self.ground, node, up=False)

    def mend_ssh(self, node: str) -> None:
        """Put it back there."""
        fabric.management(self.ground, node, up=True)


def why_unavailable() -> str | None:
    """Return the reason why this machine cannot hold a lab, or None where it can."""
    return ground.why_unavailable() or why_no_engine(default_binaries())


@contextlib.contextmanager
def lab(
    cabling: Cabling = "triangle",
    *,
    store: Path | None = None,
    kinds: Mapping[str, HostKind] | None = None,
    stays: bool = False,
) -> Iterator[Lab]:
    """Give a site whose nodes are up; afterwards nothing of it is left, unless it ``stays``.

    ``store`` is one that the head sees as its own: it reads from it, and what it writes stays on its disk. Nodes have
    systemd and overlay2 unless ``kinds`` says otherwise.
    """
    with locked() as lock:
        base = ground.made(lock, stays=stays)
        hosts: dict[str, Host] = {}
        try:
            _build(base, hosts, cabling, store, kinds or {})
            made = Lab(base, cabling, hosts)
            yield made
        except BaseException:
            _end(base, hosts)
            raise
        if stays:
            _remember(made)
        else:
            _end(base, hosts)


def _end(base: Ground, hosts: Mapping[str, Host]) -> None:
    ground.end(base)
    for host in hosts.values():
        host.ended()


def _build(
    base: Ground, hosts: dict[str, Host], cabling: Cabling, store: Path | None, kinds: Mapping[str, HostKind]
) -> None:
    there = names(cabling)
    keys = FOLDER / "keys"
    keys.mkdir(mode=0o700)
    for name in there:
        its_store = store.absolute() if store and name == there[0] else None
        hosts[name] = Host(base, name, kinds.get(name, HostKind()), its_store)
    engine = default_binaries().absolute()

    def key(name: str) -> None:
        do(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(keys / name)])

    with ThreadPoolExecutor(len(there)) as pool:
        list(pool.map(key, [OPERATOR, *there]))
        fabric.build(base, cabling)
        list(pool.map(lambda host: host.prepare(cabling, keys, engine), hosts.values()))
        for name, host in hosts.items():
            fabric.power(base, name, cabling, on=True)
            host.start()
        list(pool.map(Host.wait, hosts.values()))
        list(pool.map(lambda host: host.run(["lldpcli", "update"], user="root"), hosts.values()))


def _remember(made: Lab) -> None:
    kinds = {name: [host.kind.init, host.kind.images] for name, host in made.hosts.items()}
    _STATE.write_text(json.dumps({"first": made.ground.first, "cabling": made.cabling, "kinds": kinds}))


def attached() -> Lab:
    """Return the lab that stays on this machine; raises LabError where there is none."""
    try:
        state = json.loads(_STATE.read_text())
    except OSError as error:
        raise LabError("no lab is up: tests/lab/run.py up triangle") from error
    base = Ground(None, int(state["first"]))
    hosts = {
        name: Host(base, name, HostKind(init=init, images=images)) for name, (init, images) in state["kinds"].items()
    }
    for host in hosts.values():
        host.first = host.found()
    return Lab(base, cast("Cabling", state["cabling"]), hosts)


def end(made: Lab) -> None:
    """End a lab that stays."""
    ground.end(made.ground)
