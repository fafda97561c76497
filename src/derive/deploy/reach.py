# SPDX-License-Identifier: Apache-2.0
"""The nodes of a site for as long as a deploy takes: one that was lost is waited for while the deploy has patience.

Edge: SSH connections.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from derive.deploy.node_errors import ConnectionLost, together
from derive.deploy.remote import connect
from derive.errors import DeriveError

if TYPE_CHECKING:
    from derive.deploy.remote import Node, Nodes
    from derive.deploy.ssh_config import SshSettings
    from derive.fabric.site import Site

T = TypeVar("T")

_PAUSE_S = 2.0


class Reach:
    """The nodes of a site, by name in order of rank; opened by :func:`reach`.

    ``patience_s`` is how long a node that was lost is tried for before that is an error.
    """

    def __init__(self, site: Site, nodes: Nodes) -> None:
        self.site = site
        self.nodes = nodes
        self.names = tuple(node.name for node in site.nodes)
        self.patience_s = 0.0

    @property
    def unreachable(self) -> Mapping[str, DeriveError]:
        """The nodes to which there was no connection at first, with the reason."""
        return self.nodes.unreachable

    def leave_out_unreachable(self) -> None:
        """Go on with the nodes that there is a connection to; raises the errors of all of them where there is none."""
        self.names = tuple(name for name in self.names if name not in self.unreachable)
        if not self.names:
            raise together(tuple(self.unreachable.values()))

    async def node(self, name: str) -> Node:
        """Return a node that is connected; raises NodeUnreachable when it could not be within the patience."""
        node, until = self.nodes[name], time.monotonic() + self.patience_s
        while True:
            try:
                await node.connect()
            except DeriveError:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(_PAUSE_S)
            else:
                return node

    async def each(
        self, function: Callable[[Node], Awaitable[T]], only: Collection[str] | None = None
    ) -> dict[str, T | DeriveError]:
        """Do something on several nodes at once, on all where none are named; what failed is among the answers.

        With patience, what a lost connection cut off is done again: it may have been done the first time.
        """

        async def one(node: Node) -> T:
            until = time.monotonic() + self.patience_s
            while True:
                try:
                    return await function(await self.node(node.name))
                except ConnectionLost:
                    if time.monotonic() >= until:
                        raise
                    await asyncio.sleep(_PAUSE_S)

        return await self.nodes.each(one, self.names if only is None else only)

    async def all_of(
        self, function: Callable[[Node], Awaitable[T]], only: Collection[str] | None = None
    ) -> dict[str, T]:
        """Do something on several nodes at once; raises what failed on any of them, all together."""
        return answers_of(await self.each(function, only))


def answers_of(answers: dict[str, T | DeriveError]) -> dict[str, T]:
    """Return the answers of all nodes; raises the errors among them, together."""
    errors = [answer for answer in answers.values() if isinstance(answer, DeriveError)]
    if errors:
        raise together(errors)
    return {name: answer for name, answer in answers.items() if not isinstance(answer, DeriveError)}


@asynccontextmanager
async def reach(site: Site, settings: SshSettings | None = None, *, require_all: bool = True) -> AsyncIterator[Reach]:
    """Connect to all nodes of a site; raises what stands against any of them, all together, where all are required."""
    async with connect(site, settings, require_all=require_all) as nodes:
        yield Reach(site, nodes)
