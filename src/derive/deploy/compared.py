# SPDX-License-Identifier: Apache-2.0
"""What runs and lies on the nodes of a service held against its bundle: containers, launch files, units.

Edge: the nodes. Changes nothing; a difference is said, and repaired by a deploy alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from derive.canonical import Json, sha256
from derive.deploy import engines
from derive.deploy.effects import UNITS, read_files
from derive.deploy.guard import unlike_built
from derive.deploy.machine import unheld_by
from derive.deploy.observe import Difference, drift
from derive.errors import DeriveError
from derive.render.units import guard_program

if TYPE_CHECKING:
    from derive.deploy.effects import FileSeen
    from derive.deploy.look import Lookout
    from derive.deploy.model import Target
    from derive.deploy.remote import Node
    from derive.deploy.status import NodeSeen
    from derive.releases.facts import ImageFacts
    from derive.render.launch import Launch

_SYSTEMD = "systemd/"
_PLACES = (UNITS, "/run/systemd/system", "/etc/systemd/system.control", "/run/systemd/system.control")
"""Where drop-ins of units are read from; the last two are those of ``systemctl set-property``."""
_LARGEST_GUARD = 64 << 20
_MOST = 64
"""Drop-ins of a folder that are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One node against its bundle: every difference, sorted by field; ``trouble`` says why it could not be asked."""

    node: str
    differences: tuple[Difference, ...]
    trouble: str | None = None

    def document(self) -> dict[str, Json]:
        """Return it as part of a record."""
        return {
            "node": self.node,
            "differences": [one.document() for one in self.differences],
            "trouble": self.trouble,
        }


async def compare(
    nodes: Lookout, target: Target, seen: Sequence[NodeSeen], facts: ImageFacts | None = None
) -> tuple[Compared, ...]:
    """Compare every node with its part of the bundle.

    ``facts`` are what the release says of its image: the memory guard on the nodes is held against them.
    """
    launches = {launch.node: launch for launch in target.bundle.launches}
    return tuple(await asyncio.gather(*(_compare(nodes, target, one, launches.get(one.node), facts) for one in seen)))


def file_differences(
    files: Mapping[str, bytes], folder: str, found: Mapping[str, FileSeen], *, systemd: bool
) -> Iterable[Difference]:
    """Yield each launch file of a node that is not there as it was rendered, and each unit that is installed otherwise.

    ``found`` are the files that were read, by path. Without ``systemd`` there are no units. A drop-in of a unit is
    always one too many: what it says stands above the unit.
    """
    for path, data in sorted(files.items()):
        yield from _of_file(f"files.{path}", data, found.get(f"{folder}/{path}"))
    units = {path.removeprefix(_SYSTEMD): data for path, data in files.items() if path.startswith(_SYSTEMD)}
    if not systemd:
        return
    for name, data in sorted(units.items()):
        yield from _of_file(f"units.{name}", data, found.get(f"{UNITS}/{name}"))
    folders = drop_in_folders(units)
    for path, seen in sorted(found.items()):
        if path.rpartition("/")[0] in folders:
            yield Difference(field=f"units.{path}", expected=None, got=_digest_of(seen))


def drop_in_folders(units: Iterable[str]) -> frozenset[str]:
    """Return the folders whose files systemd adds to units: of each by its name, and of all that begin alike.

    Those for every unit of a kind (``service.d``) are the machine's own, and none of ours.
    """
    names: set[str] = set()
    for unit in units:
        stem, _, kind = unit.rpartition(".")
        parts = stem.split("-")
        names |= {unit, *(f"{'-'.join(parts[:count])}-.{kind}" for count in range(1, len(parts)))}
    return frozenset(f"{place}/{name}.d" for place in _PLACES for name in names)


def _of_file(field: str, data: bytes, seen: FileSeen | None) -> Iterable[Difference]:
    if seen is None:
        yield Difference(field=field, expected=str(sha256(data)), got=None)
    elif seen.data != data or seen.size != len(data):
        yield Difference(field=field, expected=str(sha256(data)), got=_digest_of(seen))


def _digest_of(seen: FileSeen) -> str:
    return str(sha256(seen.data)) if seen.size == len(seen.data) else f"{seen.size} bytes"


async def _compare(
    nodes: Lookout, target: Target, one: NodeSeen, launch: Launch | None, facts: ImageFacts | None
) -> Compared:
    node = nodes.node(one.node)
    if one.trouble is not None or launch is None:
        return Compared(node=one.node, differences=(), trouble=one.trouble or "its release has no such rank")
    found: list[Difference] = list(_of_state(target, one))
    try:
        # The engine's own word for which image the reference is: of the config or of the manifest, by its store.
        known = await node.ask(engines.image_ids, launch.reference)
        unheld = unheld_by(await node.ask(engines.engine_facts))
        found += drift(launch, one.container(launch.name), {launch.image, *known}, unheld=unheld)
        found += await _of_files(node, target, launch)
        if facts is not None and launch.guard:
            found += await _of_guard(node, launch, facts)
    except DeriveError as error:
        return Compared(node=one.node, differences=tuple(found), trouble=error.problems()[0].message)
    return Compared(node=one.node, differences=tuple(sorted(found, key=lambda difference: difference.field)))


async def _of_files(node: Node, target: Target, launch: Launch) -> list[Difference]:
    files = target.bundle.node(node.name)
    paths = [f"{launch.folder}/{path}" for path in files]
    paths += [f"{UNITS}/{path.removeprefix(_SYSTEMD)}" for path in files if path.startswith(_SYSTEMD)]
    units = [path.removeprefix(_SYSTEMD) for path in files if path.startswith(_SYSTEMD)]
    there = await read_files(node, paths, folders=sorted(drop_in_folders(units)), newest=_MOST)
    guards: Any = await node.effect("guard-seen", {"service": launch.name})
    return list(file_differences(files, launch.folder, there, systemd=bool(guards["systemd"])))


async def _of_guard(node: Node, launch: Launch, facts: ImageFacts) -> Iterable[Difference]:
    path = guard_program(launch)
    return guard_differences((await read_files(node, [path], limit=_LARGEST_GUARD)).get(path), facts)


def guard_differences(seen: FileSeen | None, facts: ImageFacts) -> Iterable[Difference]:
    """Yield that a node's memory guard, of which the bundle has but the path, is not there or not the release's."""
    if seen is None:
        yield Difference(field="guard.memguard", expected="the release's", got=None)
        return
    unlike = unlike_built(seen.data, facts)
    if unlike is not None:
        yield Difference(field="guard.memguard", expected=unlike[0], got=unlike[1])


def _of_state(target: Target, one: NodeSeen) -> Iterable[Difference]:
    """Yield whether the node remembers another launch than what its release renders to at this site today."""
    current = None if one.state is None else one.state.current
    if current is not None and current.launch_bundle != target.served.launch_bundle:
        expected, got = str(target.served.launch_bundle), str(current.launch_bundle)
        yield Difference(field="state.launch-bundle", expected=expected, got=got)
