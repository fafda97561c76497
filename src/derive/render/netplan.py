# SPDX-License-Identifier: Apache-2.0
"""A node's ends of the cables as netplan has them: an address for each path, and nothing that the network decides.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from derive.canonical import Json
from derive.fabric.site import Site
from derive.render.yaml import encode_yaml

MTU = 9000


def netplan_file(site: Site, rank: int) -> bytes:
    """Return the file for one node: the interfaces of its paths, by name."""
    addresses: dict[str, list[str]] = {}
    for _, path, here, _ in site.paths_of(rank):
        length = path.subnet.rpartition("/")[2]
        addresses.setdefault(here.interface, []).append(f"{here.address}/{length}")
    ethernets: dict[str, Json] = {name: _ethernet(sorted(found)) for name, found in sorted(addresses.items())}
    return encode_yaml({"network": {"version": 2, "ethernets": ethernets}})


def _ethernet(addresses: list[str]) -> Json:
    return {
        "addresses": addresses,
        "mtu": MTU,
        "dhcp4": False,
        "dhcp6": False,
        "accept-ra": False,
        "link-local": [],
        # A cable that is out must not hold up the start of the machine.
        "optional": True,
    }
