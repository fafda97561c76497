# SPDX-License-Identifier: Apache-2.0
"""Whether a node is where the site's file says, with room, mounts and ports for a launch, and what ends can come back.

Core: no IO. Standard library only. Cables, addresses and GIDs are judged by :mod:`derive.fabric.site_check`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from derive.deploy.consents import has_port, is_aside
from derive.deploy.preflight_finding import Finding, OneNode
from derive.errors import expected_got
from derive.fabric.site_check import check_site
from derive.render.plan import LAUNCH_BUNDLE_LABEL
from derive.words import size_text

if TYPE_CHECKING:
    from derive.fabric.site import End

_MARGIN = 256 << 20
"""Bytes that stay free beside what is known to come: caches, logs, evidence."""
_PACKED = 3
"""What an image takes while it is pulled, in bytes that are moved: packed, and unpacked beside it."""


def network_findings(given: OneNode) -> Iterator[Finding]:
    """Yield in what the node's interfaces, addresses, RDMA devices and cables are not as the site's file says."""
    facts = given.machine.network
    if facts is None:
        reasons = [one for one in given.machine.unread if one.startswith("network")]
        fix = "run there: derive site facts, or ip -json addr"
        yield given.error("site.node", "what its network is cannot be read", tuple(reasons), fix)
        return
    named = replace(facts, host=given.node.name)
    for one in check_site(given.site, [named]):
        others = one.id == "site.node" and one.message.startswith("nobody gave")
        if one.verdict != "pass" and not others:
            # Whose it is, is told with every finding.
            message = one.message.replace(f" of {given.node.name}", "")
            unknown = " (not known)" if one.verdict == "unknown" else ""
            yield given.error(one.id, message + unknown, (f"says so   {one.where}", *one.detail), one.fix)
    yield from _neighbours(given)


def _neighbours(given: OneNode) -> Iterator[Finding]:
    """Yield each cable that leads elsewhere, as LLDP says; of an interface that nobody answers at nothing is known."""
    told = given.machine.neighbours or ()
    nodes = given.site.site.nodes
    for _, _, here, there in given.site.site.paths_of(given.node.rank):
        seen = [one for one in told if one.interface == here.interface]
        other = nodes[there.rank]
        names = {name.partition(".")[0] for name in (other.name, other.ssh_host, given.hosts.get(other.name, ""))}
        if seen and not any(one.host in (None, *names) and _is(one.port, there) for one in seen):
            got = ", ".join(f"{one.host or 'unknown'} {one.port or ''}".strip() for one in seen)
            said = expected_got(f"{other.name} {there.interface}", got)
            message = f"the cable at {here.interface} leads elsewhere"
            fix = "put it into the right port, or correct the cables in the site's file"
            yield given.error("site.cable", message, said, fix)


def _is(port: str | None, end: End) -> bool:
    """Say whether a neighbour's port may be the wanted one: some say none, or its address in place of its name."""
    return port is None or ":" in port or port == end.interface


def space_findings(given: OneNode) -> Iterator[Finding]:
    """Yield each file system with less room than what comes: the image, launch files, caches."""
    needs: dict[int, tuple[int, list[str]]] = {}
    folder = given.site.site.folder
    wanted = {folder: _MARGIN}
    if given.machine.engine is not None and given.move_bytes is not None:
        wanted[given.machine.engine.root] = _PACKED * given.move_bytes + _MARGIN
    for place, size in wanted.items():
        disk = given.machine.disks.get(place)
        if disk is None:
            # The folder of the engine is known only once the engine has answered.
            if place == folder:
                yield given.error("disk.space", f"how much room there is below {place} cannot be read")
            continue
        total, places = needs.get(disk.device, (0, []))
        needs[disk.device] = (total + size, [*places, place])
    for device, (size, places) in needs.items():
        free = next(one.free_bytes for one in given.machine.disks.values() if one.device == device)
        if free < size:
            said = expected_got(f"{size_text(size)} free or more", size_text(free))
            fix = "make room there: docker image prune, and what lies there"
            yield given.error("disk.space", f"too little room below {' and '.join(places)}", said, fix)


def mount_findings(given: OneNode) -> Iterator[Finding]:
    """Yield each mount or device of the launch that is not there, or that the user may not read or write.

    What lies in the site's folder is made by the deploy.
    """
    own = given.site.site.folder.rstrip("/") + "/"
    for mount in given.launch.mounts:
        seen = given.machine.mounts.get(mount.source)
        if mount.source.startswith(own) or seen is None:
            continue
        if seen.kind is None:
            message = f"{mount.source} is not there, which is mounted at {mount.target}"
            reason = () if seen.reason is None else (f"because   {seen.reason}",)
            yield given.error("mount.there", message, reason, "put it there, or correct the site's file")
        elif not seen.readable or not (seen.writable or mount.read_only):
            what = "written" if seen.readable else "read"
            message = f"{mount.source} cannot be {what} by {given.machine.user or 'the user'}"
            yield given.error("mount.rights", message, fix=f"see: ls -ld {mount.source}")
    for device in given.launch.container.devices:
        source = device.partition(":")[0]
        seen = given.machine.mounts.get(source)
        if seen is not None and seen.kind is None:
            yield given.error(
                "mount.device", f"there is no {source}", fix="see that its driver is loaded: docs/setup.md"
            )


def port_findings(given: OneNode) -> Iterator[Finding]:
    """Yield each port of the launch that something else listens on; what the deploy ends may."""
    if given.containers is None:
        return
    for port in ports(given.target.bundle.resolved.master_port, given.launch.port, given.node.rank):
        if port in given.machine.listening and not any(has_port(one, port) for one in given.ending()):
            fix = f"end it: sudo ss --listening --tcp --processes 'sport = :{port}'"
            yield given.error("port.free", f"something listens on the port {port}", fix=fix)


def ports(master_port: int | None, port: int, rank: int) -> tuple[int, ...]:
    """Return the ports that a rank listens on: the service's own, and on the head that at which the ranks meet."""
    return (port, *(() if master_port is None or rank != 0 else (master_port,)))


def kept_findings(given: OneNode) -> Iterator[Finding]:
    """Yield each container that could not be kept aside: its engine removes it as soon as it has stopped."""
    for one in given.ending():
        # A service that a deploy started is no container that is kept: what starts it makes it anew.
        is_kept = one.name in given.others and (is_aside(one.name) or LAUNCH_BUNDLE_LABEL not in one.labels)
        if is_kept and one.host.get("AutoRemove") is True:
            message = f"{one.name} cannot be kept: it was started with --rm, and is gone once it has stopped"
            fix = f"start it again without --rm, or end it by hand first: docker stop {one.name}"
            yield given.error("container.kept", message, fix=fix)


def guard_findings(given: OneNode) -> Iterator[Finding]:
    """Yield a guard of an earlier deployment that is still active, though nothing is there that it could guard."""
    unit = former_guard(given.target.service)
    if given.containers is None or given.machine.units.get(unit) not in ("active", "activating"):
        return
    if not any(one.name == given.target.service for one in given.containers):
        message = f"{unit} is active: it guards {given.target.service} for an earlier deployment"
        yield given.error("guard.former", message, fix=f"sudo systemctl stop {unit}")


def former_guard(service: str) -> str:
    """Return the unit by which the deployment that this one follows guards a container."""
    return f"{service}-memguard.service"
