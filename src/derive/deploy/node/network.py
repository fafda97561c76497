# SPDX-License-Identifier: Apache-2.0
"""What a machine says of its network, in the form of ``derive site facts``: interfaces, RDMA devices, their addresses.

Edge: the node's /sys. Runs there: Python 3.8, standard library only.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

_NET = "/sys/class/net"
_RDMA = "/sys/class/infiniband"


def network(printed: str | None, host: str) -> dict[str, Any]:
    """Return the body of the record; ``printed`` is what ``ip -json addr`` prints, None where it could not be had."""
    unread: list[str] = []
    if printed is None:
        unread.append("ip -json addr: no such program, or it failed")
    addresses = _addresses(printed) if printed is not None else {}
    return {
        "host": host,
        "interfaces": [
            _interface(name, addresses.get(name, []), unread)
            for name in _names(_NET)
            if name != "lo" and os.path.isdir(os.path.join(_NET, name))  # bonding keeps a file there
        ],
        "devices": [_device(name, unread) for name in _names(_RDMA)],
        "unread": unread,
        "gathered_s": int(time.time()),
    }


def _addresses(printed: str) -> dict[str, list[str]]:
    found = {}
    for link in json.loads(printed):
        own = [one for one in link.get("addr_info", ()) if one.get("family") == "inet"]
        found[link.get("ifname")] = ["{local}/{prefixlen}".format(**one) for one in own]
    return found


def _interface(name: str, addresses: list[str], unread: list[str]) -> dict[str, Any]:
    mtu = _text(os.path.join(_NET, name, "mtu"))
    if mtu is None:
        unread.append(f"{_NET}/{name}/mtu: cannot be read")
    return {
        "name": name,
        "mtu": int(mtu) if mtu is not None and mtu.isdigit() else None,
        "carrier": _carrier(name),
        "addresses": addresses,
    }


def _carrier(name: str) -> bool | None:
    said = _text(os.path.join(_NET, name, "carrier"))
    if said is not None:
        return said == "1"
    # While an interface is down, the kernel refuses to say.
    return False if _text(os.path.join(_NET, name, "operstate")) == "down" else None


def _device(name: str, unread: list[str]) -> dict[str, Any]:
    folder = os.path.join(_RDMA, name)
    port = os.path.join(folder, "ports", "1")
    if not os.path.isdir(os.path.join(port, "gids")):
        unread.append(f"{port}/gids: not there")
    interfaces = set(_names(os.path.join(folder, "device", "net")))
    for index in _names(os.path.join(port, "gid_attrs", "ndevs")):
        interfaces.add(_text(os.path.join(port, "gid_attrs", "ndevs", index)) or "")
    gids = []
    for index in sorted((one for one in _names(os.path.join(port, "gids")) if one.isdigit()), key=int):
        kind = _text(os.path.join(port, "gid_attrs", "types", index))
        gid = _text(os.path.join(port, "gids", index))
        if kind is not None and gid is not None and gid.strip("0:"):
            gids.append({"index": int(index), "type": kind, "gid": gid})
    return {"name": name, "interfaces": sorted(interfaces - {""}), "gids": gids}


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, ValueError):
        return None
