# SPDX-License-Identifier: Apache-2.0
"""The files that make this machine's root a node's: users, keys, units, engine, and what stands for RDMA and memory.

They lie above this machine's root in an overlay. A folder that is ours alone is opaque: nothing of this machine shows
through, above all no unit of its systemd, which would clean up or start what is none of a node's.

FAKE, since this kernel has none: RDMA devices (files below /sys/class/infiniband), the amount of memory (a file over
/proc/meminfo) and the boot's id (one kernel runs all nodes).

Edge: writes a folder.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from derive.fabric.facts import Device, NodeFacts
from lab.places import (
    GIB,
    HOME,
    OPERATOR,
    OPERATOR_ID,
    STORE,
    Cabling,
    HostKind,
    address,
    cables,
    names,
)
from support.network_facts import gids, write_sys

MEMORY_TOTAL = 119 * GIB
MEMORY_FREE = 110 * GIB
ENGINE = "/opt/lab-docker"
"""Where a node has the programs of its engine."""
_SYSTEMD = "usr/lib/systemd/system"

_SSHD = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile /run/sshd.pid
Subsystem sftp internal-sftp
"""
_UNITS = {
    "lab.target": "[Unit]\nWants=docker.service ssh.service lldpd.service systemd-journald.service dbus.socket\n",
    "ssh.service": """\
[Unit]
DefaultDependencies=no
[Service]
RuntimeDirectory=sshd
ExecStart=/usr/sbin/sshd -D
KillMode=process
Restart=on-failure
RestartSec=1
""",
    "lldpd.service": """\
[Unit]
DefaultDependencies=no
[Service]
RuntimeDirectory=lldpd
ExecStart=/usr/sbin/lldpd -d
KillMode=mixed
""",
    "docker.service": f"""\
[Unit]
DefaultDependencies=no
[Service]
Type=notify
Environment=PATH={ENGINE}/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart={ENGINE}/bin/dockerd
Delegate=yes
KillMode=process
OOMScoreAdjust=-500
""",
}
_START = f"""\
#!/bin/sh
# The first process's only child where there is no systemd.
mkdir -p /sys/fs/cgroup/init /run/sshd /run/lldpd
while read -r pid; do echo "$pid" >/sys/fs/cgroup/init/cgroup.procs; done </sys/fs/cgroup/cgroup.procs 2>/dev/null
lldpd -d &
PATH={ENGINE}/bin:$PATH dockerd >/var/log/dockerd.log 2>&1 &
exec /usr/sbin/sshd -D
"""


def write_seed(folder: Path, name: str, cabling: Cabling, kind: HostKind, keys: Path) -> None:
    """Write a node's files into a folder that is not there yet."""
    folder.mkdir(mode=0o755)
    _write_etc(folder, name, cabling, kind)
    _write_users(folder)
    _write_ssh(folder, name, cabling, keys)
    _write_systemd(folder)
    service = folder / "var/lib/derive"
    service.mkdir(parents=True)
    os.chown(service, OPERATOR_ID, OPERATOR_ID)
    _opaque(folder / "var/lib/docker")
    _opaque(folder / "var/log")
    for path in (folder / "usr/local/bin/docker",):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(f"{ENGINE}/bin/{path.name}")


def write_fakes(folder: Path, name: str, cabling: Cabling) -> None:
    """Write into a folder what is bound over files of the kernel: ``class``, ``meminfo``, ``boot_id``."""
    folder.mkdir(mode=0o755)
    write_sys(folder / "sys", NodeFacts(host=name, interfaces=(), devices=tuple(_devices(name, cabling))))
    (folder / "class").mkdir()
    (folder / "sys/class/infiniband").rename(folder / "class/infiniband")
    shutil.rmtree(folder / "sys")
    (folder / "meminfo").write_text(meminfo(MEMORY_FREE))


def meminfo(available: int) -> str:
    """Return what /proc/meminfo says on a node with so many bytes to be had."""
    lines = {"MemTotal": MEMORY_TOTAL, "MemFree": available, "MemAvailable": available, "Buffers": 0, "Cached": 0}
    lines |= {"SwapCached": 0, "SwapTotal": 0, "SwapFree": 0}
    return "".join(f"{key + ':':<16}{size // 1024:>8} kB\n" for key, size in lines.items())


def _devices(name: str, cabling: Cabling) -> list[Device]:
    return [
        Device(name=path.devices[end], interfaces=(path.interfaces[end],), gids=gids(path.addresses[end]))
        for cable in cables(cabling)
        for end, owner in enumerate(cable.ends)
        if owner == name
        for path in cable.paths
    ]


def _write_etc(folder: Path, name: str, cabling: Cabling, kind: HostKind) -> None:
    hosts = "".join(f"{address(one)} {one}\n" for one in names(cabling))
    daemon: dict[str, object] = {
        "iptables": False,
        "ip6tables": False,
        "ip-forward": False,
        "bridge": "none",
        "features": {"containerd-snapshotter": kind.images == "containerd"},
    }
    if kind.images == "overlay2":
        daemon["storage-driver"] = "overlay2"
    if kind.init == "systemd":
        daemon["exec-opts"] = ["native.cgroupdriver=systemd"]
    _write(
        folder / "etc",
        {
            "hostname": f"{name}\n",
            "hosts": f"127.0.0.1 localhost\n{hosts}",
            "machine-id": f"{int(name[-1]):032x}\n",
            "fstab": "",
            "resolv.conf": "",
            "docker/daemon.json": json.dumps(daemon),
            "sudoers.d/operator": f"{OPERATOR} ALL=(ALL:ALL) NOPASSWD: ALL\n",
            "lldpd.d/lab.conf": "configure lldp tx-interval 5\nconfigure system interface pattern en*\n",
            "lab/start": _START,
        },
    )
    (folder / "etc/sudoers.d/operator").chmod(0o440)
    (folder / "etc/lab/start").chmod(0o755)


def _write_users(folder: Path) -> None:
    """Add the operator to this machine's users, in whose place no other of that name or number is left."""
    for name, line, mode in (
        ("passwd", f"{OPERATOR}:x:{OPERATOR_ID}:{OPERATOR_ID}:operator:{HOME}:/bin/bash", 0o644),
        ("shadow", f"{OPERATOR}:*:19000:0:99999:7:::", 0o640),
        ("group", f"{OPERATOR}:x:{OPERATOR_ID}:\ndocker:x:{OPERATOR_ID + 1}:{OPERATOR}", 0o644),
        ("gshadow", f"{OPERATOR}:*::\ndocker:*::{OPERATOR}", 0o640),
    ):
        there = Path("/etc", name).read_text().splitlines()
        kept = [one for one in there if one.partition(":")[0] not in {OPERATOR, "docker"}]
        (folder / "etc" / name).write_text("\n".join([*kept, line, ""]))
        (folder / "etc" / name).chmod(mode)


def _write_ssh(folder: Path, name: str, cabling: Cabling, keys: Path) -> None:
    _opaque(folder / "etc/ssh")
    host_key = folder / "etc/ssh/ssh_host_ed25519_key"
    shutil.copy(keys / name, host_key)
    host_key.chmod(0o600)
    (folder / "etc/ssh/sshd_config").write_text(_SSHD)
    _opaque(folder / "home")
    own = {"authorized_keys": (keys / f"{OPERATOR}.pub").read_text()}
    if name == names(cabling)[0]:
        known = ((keys / f"{one}.pub").read_text().split()[:2] for one in names(cabling))
        lines = (f"{one},{address(one)} {' '.join(key)}\n" for one, key in zip(names(cabling), known, strict=True))
        own |= {"id_ed25519": (keys / OPERATOR).read_text(), "known_hosts": "".join(lines)}
    _write(folder / HOME.relative_to("/") / ".ssh", own)
    if name == names(cabling)[0]:
        (folder / STORE.relative_to("/")).mkdir()
    (folder / HOME.relative_to("/") / ".profile").write_text("")
    for path in (folder / HOME.relative_to("/"), *(folder / HOME.relative_to("/")).rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.chown(path, OPERATOR_ID, OPERATOR_ID)


def _write_systemd(folder: Path) -> None:
    """Hide every unit and generator of this machine that a node has no use for."""
    _opaque(folder / "etc/systemd")
    _write(folder / "etc/systemd/system", _UNITS)
    _write(folder / "etc/systemd", {"journald.conf": "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\n"})
    _opaque(folder / "usr/lib/systemd/system-generators")
    for place in Path("/", _SYSTEMD).glob("*.wants"):
        _opaque(folder / _SYSTEMD / place.name)
    for place in Path("/", _SYSTEMD).glob("systemd-tmpfiles-*"):
        os.mknod(folder / _SYSTEMD / place.name, stat.S_IFCHR, 0)
    for link in (
        "sockets.target.wants/systemd-journald.socket",
        "sockets.target.wants/systemd-journald-dev-log.socket",
    ):
        (folder / _SYSTEMD / link).symlink_to(f"../{Path(link).name}")


def _opaque(folder: Path) -> None:
    """Make a folder through which an overlay shows nothing of the one below."""
    folder.mkdir(parents=True, exist_ok=True)
    os.setxattr(folder, "trusted.overlay.opaque", b"y")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
