# SPDX-License-Identifier: Apache-2.0
"""Reads what this machine says of its network: interfaces and RDMA devices below /sys, IPv4 addresses from ``ip``.

Edge: /sys, one subprocess. Nothing is changed, and no rights are needed.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from derive.errors import HostRefuses
from derive.fabric.facts import Device, Gid, Interface, NodeFacts

SYS = Path("/sys")
_LOOPBACK = "lo"


def gather(sys: Path = SYS, addresses: Callable[[], bytes] | None = None, host: str | None = None) -> NodeFacts:
    """Return the facts of this machine; ``addresses`` gives what ``ip -json addr`` prints.

    Raises:
        HostRefuses: when there is no such folder, or addresses cannot be read.
    """
    unread: list[str] = []
    found = _addresses((addresses or _ip)())
    folder = sys / "class" / "net"
    names = _names(folder)
    if names is None:
        raise HostRefuses(
            "no network interfaces are to be seen", where=str(folder), hint="run it on the machine itself"
        )
    interfaces = tuple(
        Interface(
            name=name,
            mtu=_number(_text(folder / name / "mtu", unread)),
            carrier=_carrier(folder / name),
            addresses=tuple(found.get(name, ())),
        )
        for name in names
        # A bonding driver keeps files here, and an interface is a folder.
        if name != _LOOPBACK and (folder / name).is_dir()
    )
    devices = _names(sys / "class" / "infiniband") or []
    return NodeFacts(
        host=host if host is not None else os.uname().nodename.partition(".")[0],
        interfaces=interfaces,
        devices=tuple(_device(sys / "class" / "infiniband" / name, unread) for name in devices),
        unread=tuple(unread),
    )


def _device(folder: Path, unread: list[str]) -> Device:
    port = folder / "ports" / "1"
    gids = tuple(_gids(port, unread))
    interfaces = set(_names(folder / "device" / "net") or ())
    for index in _names(port / "gid_attrs" / "ndevs") or ():
        # An entry that is empty has a file that cannot be read.
        if (name := _text(port / "gid_attrs" / "ndevs" / index)) is not None:
            interfaces.add(name)
    return Device(name=folder.name, interfaces=tuple(sorted(interfaces)), gids=gids)


def _gids(port: Path, unread: list[str]) -> Iterator[Gid]:
    names = _names(port / "gids")
    if names is None:
        unread.append(f"{port / 'gids'}: not there")
        return
    for index in sorted((name for name in names if name.isdecimal()), key=int):
        kind, gid = _text(port / "gid_attrs" / "types" / index), _text(port / "gids" / index)
        if kind is not None and gid is not None and gid.strip("0:"):
            yield Gid(index=int(index), type=kind, gid=gid)


def _addresses(printed: bytes) -> dict[str, list[str]]:
    try:
        return {
            link["ifname"]: [
                f"{one['local']}/{one['prefixlen']}" for one in link.get("addr_info", ()) if one["family"] == "inet"
            ]
            for link in json.loads(printed)
            if "ifname" in link
        }
    except (ValueError, KeyError, TypeError) as error:
        raise HostRefuses("ip -json addr printed something else than a list of interfaces") from error


def _ip() -> bytes:
    try:
        return subprocess.run(["ip", "-json", "addr"], check=True, capture_output=True, timeout=10).stdout
    except FileNotFoundError:
        raise HostRefuses("no program ip, which lists addresses", hint="install iproute2 on this machine") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise HostRefuses("ip -json addr failed") from error


def _names(folder: Path) -> list[str] | None:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names alone
    except OSError:
        return None


def _text(file: Path, unread: list[str] | None = None) -> str | None:
    try:
        return file.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError) as error:
        if unread is not None:
            reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not text"
            unread.append(f"{file}: {reason}")
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _carrier(folder: Path) -> bool | None:
    # The file cannot be read while the interface is down.
    text = _text(folder / "carrier")
    if text is None:
        return False if _text(folder / "operstate") == "down" else None
    return text == "1"
