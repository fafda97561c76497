# SPDX-License-Identifier: Apache-2.0
"""Is a site as its file says? Each end of each path, and each node's management network, against the machines' facts.

Core: no IO. Standard library only.

A node whose facts nobody gave is unknown, and no pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from derive.doctor.finding import Finding
from derive.errors import expected_got
from derive.fabric.cabling import MTU
from derive.fabric.facts import Device, Interface, NodeFacts
from derive.fabric.rule import SiteInput
from derive.fabric.site import End, Node, Path
from derive.words import near

_NETPLAN = "put the node's netplan.yaml there, which derive render writes"


def check_site(given: SiteInput, facts: Sequence[NodeFacts]) -> list[Finding]:
    """Return what facts say of a site, by node: findings, what is unknown, and a pass for each node that is right."""
    found: list[Finding] = []
    for node in given.site.nodes:
        own = facts_of(node, facts)
        if own is None:
            found.append(_unknown(given, node, f"nobody gave the facts of {node.name}", "run there: derive site facts"))
            continue
        said = [*_management(given, node, own), *_ends(given, node, own)]
        if any(one.verdict != "pass" for one in said):
            found += [one for one in said if one.verdict != "pass"]
        else:
            count = len(given.site.paths_of(node.rank))
            where = given.at(f"nodes[{node.rank}]")
            message = f"{node.name} is as the file says: its management address, and {count} ends of paths"
            found.append(Finding(id="site.node", severity="error", verdict="pass", where=where, message=message))
    strangers = [one.host for one in facts if not any(_is(node, one) for node in given.site.nodes)]
    for host in strangers:
        where, message = given.at("nodes"), f"facts of {host}, which is no node of this site"
        names = ", ".join(node.name for node in given.site.nodes)
        found.append(_finding("site.stranger", where, message, (f"nodes     {names}",), "leave these facts out"))
    return found


def facts_of(node: Node, facts: Sequence[NodeFacts]) -> NodeFacts | None:
    """Return the facts of a node: those of the machine of its name, or of the name that SSH knows it by."""
    return next((one for one in facts if _is(node, one)), None)


def _is(node: Node, facts: NodeFacts) -> bool:
    return facts.host in (node.name, node.ssh_host, node.name.partition(".")[0], node.ssh_host.partition(".")[0])


def _management(given: SiteInput, node: Node, facts: NodeFacts) -> Iterator[Finding]:
    place = given.at(f"nodes[{node.rank}]")
    interface = facts.interface(node.interface)
    if interface is None:
        yield _absent("interface", node.interface, node, [one.name for one in facts.interfaces], f"{place}.interface")
    elif node.address not in _hosts(interface):
        yield _finding(
            "site.address",
            f"{place}.address",
            f"{node.interface} of {node.name} has another address",
            expected_got(node.address, ", ".join(_hosts(interface)) or "none"),
            "correct the address in the site's file",
        )


def _ends(given: SiteInput, node: Node, facts: NodeFacts) -> Iterator[Finding]:
    for index, cable in enumerate(given.site.cables):
        for number, path in enumerate(cable.paths):
            for end in path.ends:
                if end.rank == node.rank:
                    place = given.at_cable(index, f"paths[{number}]")
                    yield from _interface(place, node, path, end, facts)
                    yield from _device(place, node, path, end, facts)


def _interface(place: str, node: Node, path: Path, end: End, facts: NodeFacts) -> Iterator[Finding]:
    interface = facts.interface(end.interface)
    if interface is None:
        yield _absent("interface", end.interface, node, [one.name for one in facts.interfaces], f"{place}.interfaces")
        return
    if end.address not in _hosts(interface):
        got = ", ".join(interface.addresses) or "none"
        yield _finding(
            "site.address",
            f"{place}.addresses",
            f"{end.interface} of {node.name} has another address",
            expected_got(f"{end.address}/{path.subnet.rpartition('/')[2]}", got),
            _NETPLAN,
        )
    if interface.mtu is None:
        yield _unknown_at(f"{place}.interfaces", f"the MTU of {end.interface} of {node.name} could not be read")
    elif interface.mtu != MTU:
        yield _finding(
            "site.mtu",
            f"{place}.interfaces",
            f"{end.interface} of {node.name} has another MTU",
            expected_got(MTU, interface.mtu),
            _NETPLAN,
        )
    if interface.carrier is None:
        yield _unknown_at(f"{place}.interfaces", f"whether {end.interface} of {node.name} has a carrier is unknown")
    elif not interface.carrier:
        message = f"{end.interface} of {node.name} has no carrier"
        fix = "see that its cable is in at both ends, and the interface up"
        yield _finding("site.carrier", f"{place}.interfaces", message, fix=fix)


def _device(place: str, node: Node, path: Path, end: End, facts: NodeFacts) -> Iterator[Finding]:
    device = facts.device(end.device)
    if device is None:
        yield _absent("RDMA device", end.device, node, [one.name for one in facts.devices], f"{place}.devices")
        return
    if facts.interface(end.interface) is not None and end.interface not in device.interfaces:
        yield _finding(
            "site.device",
            f"{place}.devices",
            f"{end.device} of {node.name} belongs to another interface",
            expected_got(end.interface, ", ".join(device.interfaces) or "none"),
            "correct the device, or the interface, in the site's file",
        )
    at = [gid for gid in device.gids if str(gid.index) == node.gid_index]
    if not at:
        message = f"{end.device} of {node.name} has no address at GID index {node.gid_index}"
        detail = tuple(f"index {gid.index}  {gid.type}  {gid.gid}" for gid in device.gids)
        yield _finding("site.gid", f"{place}.devices", message, detail, _gid_fix(device, path))
    elif at[0].ipv4 is None or IPv4Address(at[0].ipv4) not in IPv4Network(path.subnet):
        message = f"{end.device} of {node.name} has something else at GID index {node.gid_index}"
        got = f"{at[0].type} {at[0].ipv4 or at[0].gid}"
        yield _finding(
            "site.gid",
            f"{place}.devices",
            message,
            expected_got(f"RoCE v2 in {path.subnet}", got),
            _gid_fix(device, path),
        )


def _gid_fix(device: Device, path: Path) -> str:
    for gid in device.gids:
        if gid.ipv4 is not None and IPv4Address(gid.ipv4) in IPv4Network(path.subnet):
            return f"say gid-index = {gid.index} of this node"
    return _NETPLAN


def _hosts(interface: Interface) -> tuple[str, ...]:
    return tuple(str(IPv4Interface(text).ip) for text in interface.addresses)


def _absent(what: str, name: str, node: Node, there: Iterable[str], where: str) -> Finding:
    names = sorted(there)
    return Finding(
        id=f"site.{'interface' if what == 'interface' else 'device'}",
        severity="error",
        verdict="finding",
        where=where,
        message=f"no {what} {name} on {node.name}",
        detail=(f"there are {', '.join(names) or 'none'}",),
        fix=near(name, names),
    )


def _finding(check: str, where: str, message: str, detail: tuple[str, ...] = (), fix: str | None = None) -> Finding:
    return Finding(id=check, severity="error", verdict="finding", where=where, message=message, detail=detail, fix=fix)


def _unknown(given: SiteInput, node: Node, message: str, fix: str) -> Finding:
    where = given.at(f"nodes[{node.rank}]")
    return Finding(id="site.node", severity="error", verdict="unknown", where=where, message=message, fix=fix)


def _unknown_at(where: str, message: str) -> Finding:
    return Finding(id="site.node", severity="error", verdict="unknown", where=where, message=message)
