# SPDX-License-Identifier: Apache-2.0
"""The nodes of a site over SSH: one connection each, opened at once, closed together.

Edge: SSH connections, a private folder for the engines' sockets.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from derive.deploy.node_errors import together
from derive.deploy.node_ssh import EngineWay, Node, Ran
from derive.deploy.ssh_config import SshSettings, ssh_settings
from derive.errors import DeriveError

if TYPE_CHECKING:
    from derive.fabric.site import Site

__all__ = ["Node", "Nodes", "Ran", "connect", "connect_host"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """All nodes of a site; ``all`` by rank, ``unreachable`` those to which there was no connection, with the reason."""

    all: tuple[Node, ...]
    unreachable: Mapping[str, DeriveError]

    def __getitem__(self, name: str) -> Node:
        """Return a node by name; KeyError where the site has none."""
        for node in self.all:
            if node.name == name:
                return node
        raise KeyError(name)

    async def each(
        self,
        function: Callable[[Node], Awaitable[T]],
        only: Collection[str] | None = None,
        at_once: int = 8,
    ) -> dict[str, T | DeriveError]:
        """Call a function for each node, some at once; the results, or the errors for people, by name in rank order.

        Any other exception, and being cancelled, ends all of them.
        """
        bound = asyncio.Semaphore(at_once)

        async def one(node: Node) -> T | DeriveError:
            async with bound:
                try:
                    return await function(node)
                except DeriveError as error:
                    return error

        nodes = [node for node in self.all if only is None or node.name in only]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {node.name: group.create_task(one(node)) for node in nodes}
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return {name: task.result() for name, task in tasks.items()}


@asynccontextmanager
async def connect(
    site: Site,
    settings: SshSettings | None = None,
    *,
    connections: int = 8,
    only: Collection[str] | None = None,
    require_all: bool = True,
) -> AsyncIterator[Nodes]:
    """Connect to all nodes of a site, ``connections`` being opened at a time at most, and close them at the end.

    Without ``require_all``, nodes that are not reached are among the others, and named in ``unreachable``.

    Raises:
        NodeUnreachable: or ``SeveralNodes``, when nodes are not reached, all of them.
    """
    # A connection that was lost is told by whoever used it; asyncio would warn of each byte that nobody takes any more.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="derive-", dir=_runtime_folder()) as folder:
        settings = settings or ssh_settings(os.environ)
        every = tuple(
            Node(
                name=one.name,
                rank=one.rank,
                host=one.ssh_host,
                user=site.ssh_user,
                _settings=settings,
                _engine=EngineWay(path=str(Path(folder) / f"{one.rank}.sock")),
            )
            for one in site.nodes
            if only is None or one.name in only
        )
        try:
            opened: dict[str, Any] = await Nodes(all=every, unreachable={}).each(Node.connect, at_once=connections)
            failed = {name: error for name, error in opened.items() if error is not None}
            if failed and require_all:
                raise together(list(failed.values()))
            yield Nodes(all=every, unreachable=failed)
        finally:
            await asyncio.gather(*(node.close() for node in every))


@asynccontextmanager
async def connect_host(name: str, host: str, user: str, settings: SshSettings | None = None) -> AsyncIterator[Node]:
    """Connect to one machine that is in no site, by ``name`` for people, and close the connection at the end.

    Raises:
        NodeUnreachable: when it is not reached.
    """
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="derive-", dir=_runtime_folder()) as folder:
        way = EngineWay(path=str(Path(folder) / "engine.sock"))
        settings = settings or ssh_settings(os.environ)
        node = Node(name=name, rank=0, host=host, user=user, _settings=settings, _engine=way)
        try:
            await node.connect()
            yield node
        finally:
            await node.close()


def _runtime_folder() -> str | None:
    """Return the user's folder for sockets, if there is one; a socket's path must be short."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    return folder if 0 < len(folder) < 60 and os.access(folder, os.W_OK | os.X_OK) else None
