# SPDX-License-Identifier: Apache-2.0
"""Networks of the nodes: cables as pairs of interfaces with the names that a Spark has, and a management bridge.

A network stays when its node dies: a machine without power keeps its ports, and its neighbours see no carrier.

Edge: runs ``ip`` in the lab's namespaces.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.ground import Ground
from lab.places import MANAGEMENT, MTU, Cable, Cabling, address, cables, names

BRIDGE = "10.0.1.70/24"
# Each port answers for its own addresses alone, and nothing is passed on: without a cable no rank reaches another.
_SETTINGS = "cd /proc/sys/net/ipv4; echo 0 >ip_forward; echo 1 >conf/all/arp_ignore; echo 2 >conf/all/arp_announce"


def build(ground: Ground, cabling: Cabling) -> None:
    """Make the network of every node, the bridge that they are managed over, and the cables, all without carrier."""
    for name in names(cabling):
        ground.do("ip", "netns", "add", name)
    ground.do("ip", "-batch", "-", stdin="\n".join(_links(cabling)))
    for name in names(cabling):
        ground.do("ip", "-batch", "-", network=name, stdin="\n".join(_addresses(name, cabling)))
        ground.do("sh", "-c", _SETTINGS, network=name)


def _links(cabling: Cabling) -> Iterator[str]:
    yield "link add mgmt0 type bridge"
    yield f"addr add {BRIDGE} dev mgmt0"
    yield "link set mgmt0 up"
    for name in names(cabling):
        yield f"link add mg-{name} type veth peer name {MANAGEMENT} netns {name}"
        yield f"link set mg-{name} master mgmt0 up"
    for cable in cables(cabling):
        for path in cable.paths:
            (one, other), (here, there) = cable.ends, path.interfaces
            ends = f"mtu {MTU} type veth peer name {there} netns {other} mtu {MTU}"
            yield f"link add {here} netns {one} {ends}"


def _addresses(name: str, cabling: Cabling) -> Iterator[str]:
    yield "link set lo up"
    yield f"addr add {address(name)}/24 dev {MANAGEMENT}"
    for cable in cables(cabling):
        for end, owner in enumerate(cable.ends):
            if owner == name:
                yield from (f"addr add {path.addresses[end]}/24 dev {path.interfaces[end]}" for path in cable.paths)


def interfaces(name: str, cabling: Cabling) -> list[str]:
    """Return a node's interfaces, the management one first."""
    ends = [(cable, end) for cable in cables(cabling) for end, owner in enumerate(cable.ends) if owner == name]
    return [MANAGEMENT, *(path.interfaces[end] for cable, end in ends for path in cable.paths)]


def power(ground: Ground, name: str, cabling: Cabling, *, on: bool) -> None:
    """Give a node's ports power, or none."""
    state = "up" if on else "down"
    ground.do(
        "ip", "-batch", "-", network=name,
        stdin="\n".join(f"link set {one} {state}" for one in interfaces(name, cabling)),
    )  # fmt: skip


def pull(ground: Ground, cable: Cable, *, out: bool) -> None:
    """Pull a cable out at its first end, or put it in again: the other end sees no carrier."""
    state = "down" if out else "up"
    lines = [f"link set {path.interfaces[0]} {state}" for path in cable.paths]
    ground.do("ip", "-batch", "-", network=cable.ends[0], stdin="\n".join(lines))


def management(ground: Ground, name: str, *, up: bool) -> None:
    """Let a node be reached over the management network, or not; its own port has no carrier then."""
    ground.do("ip", "link", "set", f"mg-{name}", "up" if up else "down")
