# SPDX-License-Identifier: Apache-2.0
"""What runs and lies on the nodes of a service held against its bundle: containers, launch files, units.

Edge: the nodes. Changes nothing; a difference is said, and repaired by a deploy alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.canonical import Json, sha256
from derive.deploy import engines
from derive.deploy.effects import UNITS, read_files
from derive.deploy.machine import unheld_by
from derive.deploy.observe import Difference, drift
from derive.errors import DeriveError

if TYPE_CHECKING:
    from derive.deploy.effects import FileSeen
    from derive.deploy.look import Lookout
    from derive.deploy.model import Target
    from derive.deploy.remote import Node
    from derive.deploy.status import NodeSeen
    from derive.render.launch import Launch

_SYSTEMD = "systemd/"


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


async def compare(nodes: Lookout, target: Target, seen: Sequence[NodeSeen]) -> tuple[Compared, ...]:
    """Compare every node with its part of the bundle."""
    launches = {launch.node: launch for launch in target.bundle.launches}
    return tuple(await asyncio.gather(*(_compare(nodes, target, one, launches.get(one.node)) for one in seen)))


def file_differences(files: Mapping[str, bytes], folder: str, found: Mapping[str, FileSeen]) -> Iterable[Difference]:
    """Yield each launch file of a node that is not there as it was rendered, and each unit that is installed otherwise.

    ``found`` are the files that were read, by path. Where no unit at all is installed, nothing is said of units: the
    node is one without systemd.
    """
    for path, data in sorted(files.items()):
        yield from _of_file(f"files.{path}", data, found.get(f"{folder}/{path}"))
    units = {path.removeprefix(_SYSTEMD): data for path, data in files.items() if path.startswith(_SYSTEMD)}
    if any(f"{UNITS}/{name}" in found for name in units):
        for name, data in sorted(units.items()):
            yield from _of_file(f"units.{name}", data, found.get(f"{UNITS}/{name}"))


def _of_file(field: str, data: bytes, seen: FileSeen | None) -> Iterable[Difference]:
    if seen is None:
        yield Difference(field=field, expected=str(sha256(data)), got=None)
    elif seen.data != data or seen.size != len(data):
        got = str(sha256(seen.data)) if seen.size == len(seen.data) else f"{seen.size} bytes"
        yield Difference(field=field, expected=str(sha256(data)), got=got)


async def _compare(nodes: Lookout, target: Target, one: NodeSeen, launch: Launch | None) -> Compared:
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
    except DeriveError as error:
        return Compared(node=one.node, differences=tuple(found), trouble=error.problems()[0].message)
    return Compared(node=one.node, differences=tuple(sorted(found, key=lambda difference: difference.field)))


async def _of_files(node: Node, target: Target, launch: Launch) -> list[Difference]:
    files = target.bundle.node(node.name)
    paths = [f"{launch.folder}/{path}" for path in files]
    paths += [f"{UNITS}/{path.removeprefix(_SYSTEMD)}" for path in files if path.startswith(_SYSTEMD)]
    return list(file_differences(files, launch.folder, await read_files(node, paths)))


def _of_state(target: Target, one: NodeSeen) -> Iterable[Difference]:
    """Yield whether the node remembers another launch than what its release renders to at this site today."""
    current = None if one.state is None else one.state.current
    if current is not None and current.launch_bundle != target.served.launch_bundle:
        expected, got = str(target.served.launch_bundle), str(current.launch_bundle)
        yield Difference(field="state.launch-bundle", expected=expected, got=got)
