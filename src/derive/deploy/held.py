# SPDX-License-Identifier: Apache-2.0
"""The leases of all nodes while something is done to them: taken, renewed in the background, given back at the end.

Edge: the nodes, the clock.

The head's lease is taken first: of two operators who begin at once, one has it and the other is told who.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from derive.deploy.effects import LEASE_S, free_lease, make_folder, new_nonce, renew_lease, take_lease
from derive.deploy.lease import Fence, Owner
from derive.deploy.node_errors import Fenced, NodeSlow
from derive.errors import DeriveError

if TYPE_CHECKING:
    from derive.deploy.lease import Taken
    from derive.deploy.reach import Reach
    from derive.deploy.remote import Node

_FREE_S = 15
"""How long the nodes have to take their leases back; after that the leases run out by themselves."""


@dataclass(slots=True, kw_only=True)
class Held:
    """Leases that are held. ``lost`` is the error that says of which node one is no longer, once that is known.

    ``until`` is when each node's lease runs out unless it is renewed, by this machine's monotonic clock in seconds.
    ``asked`` are the nodes that may have given one.
    """

    fence: Fence
    owner: Owner
    seconds: int = LEASE_S
    until: dict[str, float] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    lost: DeriveError | None = None

    def check(self) -> None:
        """Refuse to go on where a lease was lost; raises Fenced, or what else said so."""
        if self.lost is not None:
            raise self.lost

    @property
    def is_another(self) -> bool:
        """Say whether another deploy has a node now: nothing may be done any more, not even going back."""
        return isinstance(self.lost, Fenced)


@asynccontextmanager
async def hold(
    nodes: Reach,
    folder: str,
    owner: Owner,
    taken: Callable[[str, Taken], None],
    on_lost: Callable[[], None],
    *,
    seconds: int = LEASE_S,
    every_s: float | None = None,
) -> AsyncIterator[Held]:
    """Hold the leases of all nodes; ``taken`` hears of each, ``on_lost`` is called once when one is lost.

    Each is for so many ``seconds``, and renewed every third of that where ``every_s`` does not say otherwise.

    Raises:
        LeaseHeld: when somebody else has one; none is kept then.
    """
    held = Held(fence=Fence(folder=folder, nonce=new_nonce()), owner=owner, seconds=seconds)
    try:
        await _take(nodes, held, taken)
        renewing = asyncio.create_task(_renew(nodes, held, on_lost, every_s or seconds / 3))
        try:
            yield held
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
    finally:
        await asyncio.shield(_free(nodes, held))


async def _take(nodes: Reach, held: Held, taken: Callable[[str, Taken], None]) -> None:
    gone: list[str] = []

    async def take(node: Node) -> None:
        held.asked.add(node.name)
        await make_folder(node, held.fence.folder)
        asked = time.monotonic()
        known = gone[0] if gone else None
        got = await take_lease(node, held.fence.folder, held.fence.nonce, held.owner, held.seconds, gone=known)
        held.until[node.name] = asked + held.seconds
        if got.why == "owner gone" and got.former is not None:
            gone.append(got.former.nonce)
        taken(node.name, got)

    head, *others = nodes.names
    # A deploy has one nonce on all nodes: that it ended with the head's last boot, the head alone can tell.
    await nodes.all_of(take, only=[head])
    await nodes.all_of(take, only=others)


async def _renew(nodes: Reach, held: Held, on_lost: Callable[[], None], every_s: float) -> None:
    """Renew each node's lease by itself: one that does not answer keeps no other waiting."""
    await asyncio.gather(*(_renew_one(nodes, name, held, on_lost, every_s) for name in nodes.names))


async def _renew_one(nodes: Reach, name: str, held: Held, on_lost: Callable[[], None], every_s: float) -> None:
    """Renew time and again; a node that cannot be asked has its lease until that has run out."""
    while True:
        await asyncio.sleep(every_s)
        error = await _renewed(nodes, name, held)
        is_gone = isinstance(error, Fenced) or (error is not None and time.monotonic() > held.until[name])
        # That another has a node is worse than that one does not answer, and told all the same.
        if is_gone and not held.is_another and (held.lost is None or isinstance(error, Fenced)):
            held.lost = error
            on_lost()


async def _renewed(nodes: Reach, name: str, held: Held) -> DeriveError | None:
    """Renew a node's lease; returns why that could not be."""
    asked = time.monotonic()
    try:
        async with asyncio.timeout(held.seconds / 3):
            await nodes.all_of(lambda node: renew_lease(node, held.fence, held.seconds), only=[name])
    except TimeoutError:
        return NodeSlow("no answer in time", node=name, effect="lease-renew")
    except DeriveError as error:
        return error
    held.until[name] = asked + held.seconds
    return None


async def _free(nodes: Reach, held: Held) -> None:
    """Give back what was taken, or may have been; a node that does not answer keeps its lease until that runs out."""
    with suppress(TimeoutError):
        await asyncio.wait_for(nodes.each(lambda node: free_lease(node, held.fence), held.asked), _FREE_S)
