# SPDX-License-Identifier: Apache-2.0
"""Machines of a site as they would describe themselves: facts as values, and the files below /sys that say them.

Edge: writes a folder that stands for /sys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from derive.fabric.facts import ROCE_V2, Device, Gid, Interface, NodeFacts
from derive.fabric.site import Site

MANAGEMENT = "enP7s7"
OLD = "IB/RoCE v1"


def mapped(address: str) -> str:
    """Return an IPv4 address as the kernel writes it in a table: eight groups of four digits."""
    numbers = [int(part) for part in address.split(".")]
    return f"0000:0000:0000:0000:0000:ffff:{numbers[0]:02x}{numbers[1]:02x}:{numbers[2]:02x}{numbers[3]:02x}"


def gids(address: str, *, first: int = 2) -> tuple[Gid, ...]:
    """Return a table: two entries of the link-local IPv6 address, then the IPv4 one of both types."""
    local = "fe80:0000:0000:0000:4abc:d2ff:fe00:0001"
    return (
        Gid(index=0, type=OLD, gid=local),
        Gid(index=1, type=ROCE_V2, gid=local),
        Gid(index=first, type=OLD, gid=mapped(address)),
        Gid(index=first + 1, type=ROCE_V2, gid=mapped(address)),
    )


def port(
    device: str, interface: str, address: str | None, *, length: int = 24, mtu: int = 9000
) -> tuple[Device, Interface]:
    """Return a device and its interface; None for one without an address."""
    addresses = () if address is None else (f"{address}/{length}",)
    return (
        Device(name=device, interfaces=(interface,), gids=() if address is None else gids(address)),
        Interface(name=interface, mtu=mtu, carrier=True, addresses=addresses),
    )


def node(host: str, address: str, ports: Sequence[tuple[Device, Interface]]) -> NodeFacts:
    """Return a machine with its management address, a bridge of Docker, and ports."""
    return NodeFacts(
        host=host,
        interfaces=(
            Interface(name=MANAGEMENT, mtu=1500, carrier=True, addresses=(f"{address}/24",)),
            Interface(name="docker0", mtu=1500, carrier=False, addresses=("172.17.0.1/16",)),
            *(interface for _, interface in ports),
        ),
        devices=tuple(device for device, _ in ports),
    )


def facts_of_site(site: Site) -> list[NodeFacts]:
    """Return what the machines of a site say when all is as the site says."""
    return [
        node(
            one.name,
            one.address,
            [port(here.device, here.interface, here.address) for _, _, here, _ in site.paths_of(one.rank)],
        )
        for one in site.nodes
    ]


def write_sys(folder: Path, facts: NodeFacts) -> bytes:
    """Write what stands for /sys on a machine, and return what ``ip -json addr`` would print there."""
    for interface in facts.interfaces:
        files = {"mtu": f"{interface.mtu}\n", "operstate": "up\n" if interface.carrier else "down\n"}
        if interface.carrier:
            files["carrier"] = "1\n"
        _write(folder / "class" / "net" / interface.name, files)
    _write(folder / "class" / "net" / "lo", {"mtu": "65536\n", "carrier": "1\n"})
    (folder / "class" / "net" / "bonding_masters").write_text("\n")
    for device in facts.devices:
        place = folder / "class" / "infiniband" / device.name
        for name in device.interfaces:
            (place / "device" / "net" / name).mkdir(parents=True)
        tables: dict[str, str] = {"gids/7": f"{':'.join(['0000'] * 8)}\n"}
        for gid in device.gids:
            tables[f"gids/{gid.index}"] = f"{gid.gid}\n"
            tables[f"gid_attrs/types/{gid.index}"] = f"{gid.type}\n"
            tables[f"gid_attrs/ndevs/{gid.index}"] = f"{device.interfaces[0]}\n"
        _write(place / "ports" / "1", tables)
    return json.dumps([_printed(one) for one in facts.interfaces]).encode()


def _printed(interface: Interface) -> Mapping[str, object]:
    ipv4 = [
        {"family": "inet", "local": text.partition("/")[0], "prefixlen": int(text.partition("/")[2]), "scope": "global"}
        for text in interface.addresses
    ]
    local = {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"}
    return {"ifname": interface.name, "mtu": interface.mtu, "addr_info": [*ipv4, local]}


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
