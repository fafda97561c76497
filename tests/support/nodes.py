# SPDX-License-Identifier: Apache-2.0
"""A site whose nodes are all this machine, reached through a real sshd on loopback.

Edge: starts sshd and container engines; kills what sshd started; the file system.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from derive.deploy.remote import Node, connect
from derive.deploy.ssh_config import SshSettings
from derive.fabric.site import Site
from support.fabrics import example_site
from support.git_server import GitSsh, git_ssh
from support.node_programs import PATH

T = TypeVar("T")

NAMES = ("spark1", "spark2", "spark3")


@dataclass(frozen=True, slots=True)
class Sshd:
    """A running sshd, and a site of three nodes that are reached through it."""

    server: GitSsh
    site: Site
    settings: SshSettings

    @property
    def config(self) -> Path:
        """The file of settings for ssh."""
        return self.settings.files[0]

    def cut(self) -> int:
        """End every connection at once, without a word; returns how many processes were killed."""
        found = _below(self.server.pid)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(found)


def _below(pid: int) -> list[int]:
    """Return sshd's own processes below one, and none of the programs that they started."""
    children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    found = []
    for child in children:
        with contextlib.suppress(OSError):
            if "sshd" in Path(f"/proc/{child}/comm").read_text():
                found += [child, *_below(child)]
    return found


@contextmanager
def sshd_nodes(folder: Path) -> Iterator[Sshd]:
    """Run sshd, with settings of ssh that lead every node of a site to it.

    Nothing there reads what this user has in files of shells: it takes longer than all that is tried here.
    """
    with git_ssh(folder, environment=f"HOME={folder} PATH={PATH}") as server:
        config = folder / "config"
        config.write_text(config_text(server))
        yield Sshd(server, site_at(folder / "site"), SshSettings(files=(config,), connect_s=5))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens outside this process."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.02)


class HasNodes(Protocol):
    """Nodes of a site, and how SSH gets there."""

    @property
    def site(self) -> Site:
        """The site."""

    @property
    def settings(self) -> SshSettings:
        """How its nodes are reached."""


class AtNode(Protocol):
    """Calls a function with a node that stays connected."""

    def __call__(self, function: Callable[[Node], Coroutine[Any, Any, T]]) -> T:
        """Return what the function comes to."""


@contextmanager
def connected(nodes: HasNodes) -> Iterator[AtNode]:
    """Stay connected to the first node of a site."""
    with asyncio.Runner() as runner:
        name = nodes.site.nodes[0].name
        opened = connect(nodes.site, nodes.settings, only=(name,))
        node = runner.run(opened.__aenter__())[name]

        def at(function: Callable[[Node], Coroutine[Any, Any, T]]) -> T:
            return runner.run(function(node))

        try:
            yield at
        finally:
            runner.run(opened.__aexit__(None, None, None))


def site_at(folder: Path, names: tuple[str, ...] = NAMES) -> Site:
    """Return a triangle's site whose folder is one of this machine."""
    site = example_site("triangle")
    nodes = tuple(replace(node, name=name, ssh_host=name) for node, name in zip(site.nodes, names, strict=True))
    return replace(site, ssh_user=getpass.getuser(), folder=str(folder), nodes=nodes)


def config_text(server: GitSsh, more: str = "") -> str:
    """Return settings of ssh under which every host is that sshd."""
    return "\n".join(
        [
            "Host *",
            "  HostName 127.0.0.1",
            f"  Port {server.port}",
            f"  IdentityFile {server.folder / 'user'}",
            "  IdentitiesOnly yes",
            f"  UserKnownHostsFile {server.folder / 'known'}",
            "  GlobalKnownHostsFile /dev/null",
            more,
            "",
        ]
    )
