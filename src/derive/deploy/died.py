# SPDX-License-Identifier: Apache-2.0
"""Looks more closely at ranks that have died: when by one clock, and what guards and kernels wrote down of it.

Edge: the nodes. Changes nothing; what it means is judged by :mod:`derive.deploy.incident`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from derive.deploy.guard_records import guard_kill
from derive.deploy.incident import deaths, in_order
from derive.deploy.kernel_log import kernel_kill
from derive.deploy.look import ahead_of_here
from derive.errors import DeriveError

if TYPE_CHECKING:
    from derive.deploy.effects import FileSeen
    from derive.deploy.guard_records import GuardKill
    from derive.deploy.incident import Death
    from derive.deploy.kernel_log import KernelKill
    from derive.deploy.look import Lookout
    from derive.deploy.model import Container
    from derive.deploy.remote import Node


async def who_died(nodes: Lookout, service: str, known: Sequence[Death]) -> tuple[Death, ...]:
    """Look once more at who died and when: with the guards' records and the kernel's log, and by one clock.

    Of a node that does not answer just now, what was ``known`` of it a moment ago counts.
    """
    before = {one.node: one for one in known}
    seen, files = await asyncio.gather(nodes.look(service), nodes.kills(service))
    asked = [one for one in seen if one.trouble is None and one.node in before]
    said = await asyncio.gather(*(_told_by(nodes.node(one.node), one.container(service)) for one in asked))
    clocks = {one.node: told for one, told in zip(asked, said, strict=True)}
    ranks = []
    for one in seen:
        ahead, kernel = clocks.get(one.node, (0, None))
        kills = [kill for kill in map(_kill, files.get(one.node, {}).values()) if kill is not None]
        ranks.append(replace(one, ahead_ns=ahead).as_rank(service, kills, kernel))
    found = deaths([one for one in ranks if one.trouble is None or one.node in before])
    return in_order(before[one.node] if one.kind == "lost" else one for one in found)


async def _told_by(node: Node, container: Container | None) -> tuple[int, KernelKill | None]:
    """Return what a node's clock is ahead of this one's, and what its kernel says that it killed in a container."""
    try:
        ahead = await ahead_of_here(node)
        if container is None or container.state == "running":
            return ahead, None
        ran = await node.run(["dmesg"], sudo=True, timeout_s=10)
    except DeriveError:
        return 0, None
    return ahead, kernel_kill(ran.out.decode(errors="replace"), container.id)


def _kill(seen: FileSeen) -> GuardKill | None:
    try:
        return guard_kill(seen.path, json.loads(seen.data))
    except ValueError:
        return None
