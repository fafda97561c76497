# SPDX-License-Identifier: Apache-2.0
"""What is kept of a start that failed: every rank's log and inspect, its units and journal, what its guard recorded.

Edge: the nodes, the operator's folder. Nothing here fails: what could not be had is a line in ``missing.txt``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from derive.deploy import engines
from derive.deploy.effects import read_files, unit_states
from derive.errors import DeriveError

if TYPE_CHECKING:
    from derive.deploy.kept import Evidence
    from derive.deploy.remote import Node
    from derive.deploy.work import Work

STEP = "evidence"
_NODE_S = 60
_JOURNAL_LINES = 400


async def keep(work: Work, why: str) -> Path | None:
    """Keep it, in a folder of its own, whose path is returned; None where the operator's folder takes nothing.

    Nothing that goes wrong here stands in the way of going back.
    """
    try:
        return await _keep(work, why)
    except Exception as error:  # noqa: BLE001 - see above
        work.say(STEP, f"not all can be kept: {error}")
        return None


async def _keep(work: Work, why: str) -> Path:
    kept = work.means.kept.new_logs(work.service, why, work.means.now_s())
    missing: list[str] = []

    async def of(node: Node) -> str:
        async with asyncio.timeout(_NODE_S):
            return await _keep_node(work, node, kept, missing)

    async def told(node: Node) -> str:
        try:
            return await of(node)
        except TimeoutError as error:
            raise DeriveError(f"no answer in {_NODE_S} s") from error

    for name, answer in (await work.tried(STEP, told)).items():
        if isinstance(answer, DeriveError):
            missing.append(f"{name}: {answer.message}")
    if missing:
        kept.write("missing.txt", "\n".join((*missing, "")).encode())
    work.say(STEP, f"kept in {kept.folder}")
    return kept.folder


async def _keep_node(work: Work, node: Node, kept: Evidence, missing: list[str]) -> str:
    said = []
    for part, get in (
        ("log", _log),
        ("inspect", _inspect),
        ("units", _units),
        ("journal", _journal),
        ("guard", _guard),
    ):
        try:
            for name, data in await get(work, node):
                kept.write(f"{node.name}.{name}", data)
                said.append(f"{name} {len(data)} bytes")
        except DeriveError as error:
            missing.append(f"{node.name}: {part}: {error.message}")
    return ", ".join(said) or "nothing there"


async def _log(work: Work, node: Node) -> list[tuple[str, bytes]]:
    if not await node.ask(engines.containers, [work.service]):
        return []
    return [("log", await node.ask(engines.logs, work.service, timestamps=True))]


async def _inspect(work: Work, node: Node) -> list[tuple[str, bytes]]:
    found = await node.ask(engines.inspected, work.service)
    return [] if found is None else [("inspect.json", (json.dumps(found, indent=1, sort_keys=True) + "\n").encode())]


def unit_names(service: str) -> Iterator[str]:
    """Yield the names of all units that a service may have on a node."""
    yield f"derive-{service}.service"
    yield from (f"derive-{service}-{part}.service" for part in ("guard-startup", "guard-steady", "armed"))
    yield f"derive-{service}.slice"


async def _units(work: Work, node: Node) -> list[tuple[str, bytes]]:
    states = await unit_states(node, list(unit_names(work.service)))
    lines = [
        f"{one.name}  {one.load}  {one.active}  {one.sub}  {one.result}  {one.exit_code}  {one.exit_status}"
        for one in states.values()
    ]
    return [("units.txt", "\n".join((*lines, "")).encode())]


async def _journal(work: Work, node: Node) -> list[tuple[str, bytes]]:
    units = [word for name in unit_names(work.service) for word in ("--unit", name)]
    wanted = ["journalctl", "--no-pager", "--output=short-iso-precise", f"--lines={_JOURNAL_LINES}", *units]
    ran = await node.run(wanted, sudo=True)
    return [("journal.txt", ran.out)] if ran.code == 0 and ran.out else []


async def _guard(work: Work, node: Node) -> list[tuple[str, bytes]]:
    found = await read_files(node, folders=[f"{work.folder}/{work.service}/evidence"], newest=4)
    return [(f"guard-{PurePosixPath(path).name}", one.data) for path, one in found.items()]
