# SPDX-License-Identifier: Apache-2.0
"""The image on every node, by its digest: room on all of them first, then what is missing, then what came is read back.

Edge: the store, a loopback server, the nodes and their engines.

A node's engine pulls from a port of its own loopback, which leads through the node's SSH connection to a server of this
process, so that no engine's settings change. Where the site names another registry, nodes pull from there themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from derive.deploy.bringing import Bringing, EngineLook, Moved, Pace, Sought, look, require_room
from derive.deploy.image_facts import PARTS
from derive.deploy.node_errors import together
from derive.deploy.stored_image import stored_image, unpacked_sizes
from derive.errors import DeriveError
from derive.words import count_text, size_text

if TYPE_CHECKING:
    from derive.deploy.image_facts import ImageFacts
    from derive.deploy.model import Target
    from derive.deploy.remote import Node
    from derive.store.local import LocalStore

T = TypeVar("T")

PACE = Pace()
"""Four nodes at the same time: encryption for one already keeps one core of this machine busy."""


class Each(Protocol):
    """Several nodes: does something on each, some at once, and returns the results or the errors by name."""

    async def each(
        self, function: Callable[[Node], Awaitable[T]], only: Collection[str] | None = None
    ) -> dict[str, T | DeriveError]:
        """Do it on those that are named, on all where none are."""


def sought(target: Target, store: LocalStore) -> Sought:
    """Return the image of a target, and where engines are to find it; raises what ``stored_image`` raises."""
    repository = target.bundle.launches[0].reference.partition("@")[0]
    image = stored_image(store, target.served.image)
    return Sought(image=image, repository=repository, port=target.bundle.site.images_port)


async def missing(nodes: Each, wanted: Sought, store: LocalStore) -> dict[str, int | DeriveError]:
    """Return the bytes that each node's engine lacks of the image, or why it does not say; nothing is changed."""

    async def one(node: Node) -> int:
        return (await look(node, wanted, store)).need.move_bytes

    return await nodes.each(one)


async def distribute(
    nodes: Each, wanted: Sought, store: LocalStore, say: Callable[[str, str], None], pace: Pace = PACE
) -> dict[str, Moved]:
    """Bring the image to all nodes; where it is already, nothing moves. It may be repeated after any failure.

    ``say`` is told a node's name, and what goes on there.

    Raises:
        NodeError: of one node, or ``SeveralNodes``: where there is too little room, before anything moves anywhere;
            else where an engine could not pull, or then shows another image. What other nodes got stays there.
    """
    looks = _answers(await nodes.each(lambda node: look(node, wanted, store)))
    await _require_room(nodes, store, looks)
    gate = asyncio.Semaphore(pace.at_once)
    threads = ThreadPoolExecutor(max_workers=pace.at_once * (PARTS + 1), thread_name_prefix="pull")

    async def one(node: Node) -> Moved:
        async with gate:
            bringing = Bringing(
                node=node, sought=wanted, store=store, say=lambda text: say(node.name, text), threads=threads, pace=pace
            )
            moved = await bringing.bring(looks[node.name])
            say(node.name, f"done: {words(moved, wanted.image)}")
            return moved

    try:
        return _answers(await nodes.each(one))
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def words(moved: Moved, image: ImageFacts) -> str:
    """Say how the image came to a node, and how it is known there."""
    if moved.was_there:
        how = "there already"
    elif moved.moved_bytes is None:
        how = f"{count_text(moved.layers, 'layer')} pulled"
    else:
        how = f"{count_text(moved.layers, 'layer')}, {size_text(moved.moved_bytes)} moved"
    return f"{how}; {moved.match.words(image)}"


def moved_bytes(moved: Mapping[str, Moved]) -> int | None:
    """Return the bytes that left here for all nodes together; None where they pulled from a registry."""
    counts = [one.moved_bytes for one in moved.values()]
    return sum(count for count in counts if count is not None) if None not in counts else None


async def _require_room(nodes: Each, store: LocalStore, looks: Mapping[str, EngineLook]) -> None:
    lacking = {layer.diff_id: layer for found in looks.values() for layer in found.need.unpack}
    sizes = await asyncio.to_thread(unpacked_sizes, store, lacking.values())
    _answers(await nodes.each(lambda node: require_room(node, looks[node.name], sizes)))


def _answers(found: Mapping[str, T | DeriveError]) -> dict[str, T]:
    errors = [answer for answer in found.values() if isinstance(answer, DeriveError)]
    if errors:
        raise together(errors)
    return {name: answer for name, answer in found.items() if not isinstance(answer, DeriveError)}
