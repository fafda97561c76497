# SPDX-License-Identifier: Apache-2.0
"""Every effect on a node, typed: each is one program run there over SSH, and may be repeated.

Edge: SSH; this process's own description.

All that change a node take a *fence* (the site's folder and the lease's nonce) and are refused with ``Fenced`` where
the node's lease is another's. What a node cannot do is ``EffectFailed``; a connection that ends in the middle is
``ConnectionLost``, after which the same effect may be asked for again.
"""

from __future__ import annotations

import base64
import os
import pwd
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derive.canonical import Digest, Json, sha256
from derive.deploy.lease import Fence, Lease, Owner, Taken, parse_lease
from derive.deploy.model import NodeState
from derive.deploy.node_errors import LeaseHeld
from derive.deploy.node_ssh import Node, Ran
from derive.deploy.node_state import parse_state, state_document
from derive.errors import Corrupt

UNITS = "/etc/systemd/system"
LEASE_S = 60
"""How long a lease holds unless it is renewed; renew it every third of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked of a machine beside what every machine is asked.

    ``folders``: where space is looked at (a folder that is not there yet is looked at where it will be). ``mounts``:
    sources of mounts. ``files``: files whose size is asked. ``ports``: TCP ports that may be listened on. ``modules``:
    kernel modules. ``units``: systemd units. ``lldp``: whether neighbours are asked for.
    """

    folders: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    modules: tuple[str, ...] = ("nvidia", "nvidia_uvm", "nvidia_peermem")
    units: tuple[str, ...] = ()
    lldp: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSeen:
    """What a node remembers of a service. ``damaged`` says why its state file could not be read, else None.

    ``link`` is the launch digest that ``current`` leads to, None where there is no link; ``launches`` are those whose
    folders are there. ``odd`` says in a few words what is wrong with ``current``, None where it is as it should be, or
    is not there.
    """

    state: NodeState | None
    damaged: str | None
    link: Digest | None
    launches: tuple[Digest, ...]
    odd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """What became of files that were put: ``kept`` where they were there already, ``bytes_moved`` what was sent."""

    kept: bool
    bytes_moved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSeen:
    """A systemd unit as systemd shows it; ``load`` is ``not-found`` where there is none. Codes as systemd has them."""

    name: str
    load: str
    active: str
    sub: str
    result: str
    pid: int
    exit_code: int
    exit_status: int
    since_ns: int
    """When it became active, by the node's monotonic clock; 0 where it never was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSeen:
    """A file as it was read: whole, or its last part where it is longer than was asked for."""

    path: str
    data: bytes
    size: int


def this_process(what: str) -> Owner:
    """Describe this process as the owner of a lease; ``what`` is what it does, for people."""
    return Owner(
        user=pwd.getpwuid(os.getuid()).pw_name,
        host=socket.gethostname().partition(".")[0],
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        pid_namespace=str(Path("/proc/self/ns/pid").readlink()),
        pid=os.getpid(),
        started=_started(os.getpid()) or 0,
        what=what,
    )


def is_gone(owner: Owner) -> bool:
    """Say whether a lease's owner ran on this very machine and does so no more; False where that is not known."""
    here = this_process("")
    if (owner.boot_id, owner.pid_namespace, owner.host) != (here.boot_id, here.pid_namespace, here.host):
        return False
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # another user's
    began = _started(owner.pid)
    # Where /proc hides the processes of others, one of that number counts as the owner.
    return began is not None and began != owner.started


def new_nonce() -> str:
    """Return a nonce for one deploy: the same on all its nodes."""
    return secrets.token_hex(16)


async def make_folder(node: Node, folder: str) -> bool:
    """Make the site's folder where it is not there, with ``sudo`` where it must be; it is the SSH user's then.

    Returns whether it was made.
    """
    answer: Any = await node.effect("folder-make", {"folder": folder})
    return bool(answer["made"])


async def take_lease(
    node: Node, folder: str, nonce: str, owner: Owner, seconds: int = LEASE_S, *, gone: str | None = None
) -> Taken:
    """Take the node's lease; one that has expired, or whose owner is known to be gone, is taken over.

    Taken again with the same nonce, it is renewed. ``gone`` is the nonce of a lease whose owner another node knows to
    be gone.

    Raises:
        LeaseHeld: when somebody else has it; ``holder`` says who.
    """
    arguments: dict[str, Json] = {"folder": folder, "lease": nonce, "owner": owner.document(), "seconds": seconds}
    if gone is not None:
        arguments["replaces"] = gone
    try:
        return _taken(await node.effect("lease-take", arguments), node)
    except LeaseHeld as held:
        if held.holder is None or not is_gone(held.holder.owner):
            raise
        return _taken(await node.effect("lease-take", {**arguments, "replaces": held.holder.nonce}), node)


async def renew_lease(node: Node, fence: Fence, seconds: int = LEASE_S) -> Lease:
    """Renew the lease.

    Raises:
        Fenced: when it is no longer this deploy's, or nobody's.
    """
    answer: Any = await node.effect("lease-renew", {**fence.document(), "seconds": seconds})
    return parse_lease(answer["lease"], node.name)


async def free_lease(node: Node, fence: Fence) -> bool:
    """Give the lease back; False where it was another's or nobody's, which is left as it is."""
    answer: Any = await node.effect("lease-free", fence.document())
    return bool(answer["freed"])


async def read_lease(node: Node, folder: str) -> Lease | None:
    """Return the node's lease, expired or not; None where there is none.

    Raises:
        Corrupt: when there is one that cannot be read: the next that is taken replaces it.
    """
    answer: Any = await node.effect("lease-read", {"folder": folder})
    if answer["damaged"] is not None:
        raise Corrupt(answer["damaged"], where=node.name)
    return None if answer["lease"] is None else parse_lease(answer["lease"], node.name)


async def facts(node: Node, wanted: Wanted, *, timeout_s: float = 60) -> Mapping[str, Json]:
    """Return what the machine says of itself: the document ``machine-facts/1``, as ``node/facts.py`` writes it."""
    arguments: dict[str, Json] = {
        "name": node.name,
        "folders": list(wanted.folders),
        "mounts": list(wanted.mounts),
        "files": list(wanted.files),
        "ports": list(wanted.ports),
        "modules": list(wanted.modules),
        "units": list(wanted.units),
        "lldp": wanted.lldp,
    }
    answer: Any = await node.effect("facts", arguments, timeout_s=timeout_s)
    return dict(answer)


async def put_tree(node: Node, fence: Fence, service: str, launch: Digest, files: Mapping[str, bytes]) -> Put:
    """Put a node's launch files into their folder, whole or not at all; a folder that has just these is kept.

    ``files`` are those of ``Bundle.node(name)``: they are held against their own manifest first, here and there.
    """
    digests: dict[str, Json] = {path: str(sha256(data)) for path, data in sorted(files.items())}
    sent: dict[str, Json] = {path: _text(data) for path, data in files.items()}
    arguments = {**fence.document(), "service": service, "launch": launch.hex, "digests": digests, "files": sent}
    answer: Any = await node.effect("tree-put", arguments, timeout_s=120)
    return Put(kept=answer["kept"], bytes_moved=sum(map(len, files.values())))


async def put_file(node: Node, fence: Fence, path: str, data: bytes, *, mode: int = 0o644) -> Put:
    """Put one file below the site's folder; one that has these bytes is kept, and gets this mode."""
    common = {**fence.document(), "path": path, "sha256": str(sha256(data)), "mode": mode}
    answer: Any = await node.effect("file-put", {**common, "data": None})
    if answer["kept"]:
        return Put(kept=True, bytes_moved=0)
    await node.effect("file-put", {**common, "data": _text(data)}, timeout_s=120)
    return Put(kept=False, bytes_moved=len(data))


async def activate(node: Node, fence: Fence, launch: Digest, state: NodeState) -> Digest | None:
    """Let ``current`` lead to a launch's folder and write the state, in that order; returns what it led to before."""
    arguments = {**fence.document(), "service": state.service, "launch": launch.hex, "state": state_document(state)}
    answer: Any = await node.effect("activate", arguments)
    return None if answer["former"] is None else Digest(answer["former"])


async def deactivate(node: Node, fence: Fence, state: NodeState) -> None:
    """Remove the link ``current`` and write the state: nothing of the service is the node's then."""
    await node.effect(
        "activate", {**fence.document(), "service": state.service, "launch": None, "state": state_document(state)}
    )


async def read_state(node: Node, folder: str, service: str) -> StateSeen:
    """Return what the node remembers of a service; an unreadable state is said, and is no error."""
    answer: Any = await node.effect("state-read", {"folder": folder, "service": service})
    return _state_seen(answer, f"{node.name}: {folder}/{service}/state.json")


async def read_states(node: Node, folder: str) -> dict[str, StateSeen]:
    """Return what the node remembers of every service that has a folder there, by name."""
    answer: Any = await node.effect("states-read", {"folder": folder})
    return {
        service: _state_seen(seen, f"{node.name}: {folder}/{service}/state.json") for service, seen in answer.items()
    }


async def write_state(node: Node, fence: Fence, state: NodeState) -> None:
    """Replace what the node remembers of a service."""
    await node.effect("state-write", {**fence.document(), "service": state.service, "state": state_document(state)})


async def install_units(
    node: Node, fence: Fence, units: Mapping[str, bytes], *, remove: Sequence[str] = (), into: str = UNITS
) -> bool:
    """Put units in place, remove others by name, and let systemd read them again; whether anything changed."""
    texts: dict[str, Json] = {name: _text(data) for name, data in units.items()}
    arguments = {**fence.document(), "units": texts, "remove": list(remove), "into": into}
    answer: Any = await node.effect("units-install", arguments, sudo=True)
    return bool(answer["changed"])


async def remove_units(node: Node, fence: Fence, names: Sequence[str], *, into: str = UNITS) -> bool:
    """Remove units that do not run, and let systemd forget them; whether there were any.

    Raises:
        EffectFailed: when one of them is still active, and nothing was removed.
    """
    arguments = {**fence.document(), "names": list(names), "into": into}
    answer: Any = await node.effect("units-remove", arguments, sudo=True)
    return bool(answer["changed"])


async def unit_states(node: Node, names: Sequence[str]) -> dict[str, UnitSeen]:
    """Return how units stand, by name; those that are not there included."""
    answer: Any = await node.effect("unit-states", {"names": list(names)})
    return {
        name: UnitSeen(
            name=name,
            load=seen["load"],
            active=seen["active"],
            sub=seen["sub"],
            result=seen["result"],
            pid=seen["pid"],
            exit_code=seen["exit_code"],
            exit_status=seen["exit_status"],
            since_ns=seen["since_ns"],
        )
        for name, seen in answer.items()
    }


async def prune(
    node: Node, fence: Fence, service: str, *, keep: int, named: Sequence[Digest] = ()
) -> tuple[Digest, ...]:
    """Remove launch folders beyond the newest ``keep`` that neither the link, the state nor ``named`` names."""
    arguments = {
        **fence.document(),
        "service": service,
        "keep": keep,
        "named": [one.hex for one in named],
    }
    answer: Any = await node.effect("prune", arguments)
    return tuple(Digest(one) for one in answer["removed"])


async def read_files(
    node: Node,
    paths: Sequence[str] = (),
    *,
    folders: Sequence[str] = (),
    newest: int = 8,
    limit: int = 1 << 20,
    sudo: bool = False,
) -> dict[str, FileSeen]:
    """Return files by path, with the ``newest`` files of folders, ``limit`` bytes of each; absent ones are left out."""
    arguments: dict[str, Json] = {"paths": list(paths), "folders": list(folders), "newest": newest, "limit": limit}
    answer: Any = await node.effect("files-read", arguments, sudo=sudo)
    return {
        path: FileSeen(path=path, data=base64.b64decode(seen["data"]), size=seen["size"])
        for path, seen in answer.items()
    }


async def run_fenced(
    node: Node, fence: Fence, argv: Sequence[str], *, sudo: bool = False, stdin: bytes = b"", timeout_s: float = 60
) -> Ran:
    """Run a program that changes the node, such as systemctl, while the lease is held: none can be taken meanwhile."""
    arguments = {**fence.document(), "argv": list(argv), "stdin": _text(stdin)}
    answer: Any = await node.effect("run", arguments, sudo=sudo, timeout_s=timeout_s)
    return Ran(code=answer["code"], out=base64.b64decode(answer["out"]), err=base64.b64decode(answer["err"]))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _taken(answer: Any, node: Node) -> Taken:
    former = None if answer["former"] is None else parse_lease(answer["former"], node.name)
    return Taken(lease=parse_lease(answer["lease"], node.name), former=former, why=answer["why"])


def _state_seen(answer: Any, where: str) -> StateSeen:
    state, damaged = None, answer["damaged"]
    if answer["state"] is not None:
        try:
            state = parse_state(answer["state"], where)
        except Corrupt as error:
            damaged = "; ".join((error.message, *error.detail))
    return StateSeen(
        state=state,
        damaged=damaged,
        link=None if answer["link"] is None else Digest(answer["link"]),
        launches=tuple(Digest(one) for one in answer["launches"]),
        odd=answer["odd"],
    )


def _started(pid: int) -> int | None:
    """Return when a process began, in ticks since boot: 0 for what is left of one, None where it is not to be seen."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return 0 if words[0] in (b"Z", b"X") else int(words[19])
