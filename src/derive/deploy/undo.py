# SPDX-License-Identifier: Apache-2.0
"""Goes back to what ran before: takes down what a deploy started, and brings the former release up by the same steps.

Edge: the nodes and their engines.

Launch files have a digest: rendered again they count where they come out with that one, else those on the nodes do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from derive.canonical import CanonicalError, decode, sha256
from derive.deploy import engines, evidence, steps
from derive.deploy.effects import read_files, remove_units, run_fenced
from derive.deploy.evidence import unit_names
from derive.deploy.former import STOPPED, changes_machines
from derive.deploy.guard import GuardFile
from derive.deploy.model import Stood, Target
from derive.deploy.node_errors import Fenced
from derive.deploy.refused import running_text
from derive.deploy.room import put_back
from derive.deploy.situation import UP
from derive.errors import Corrupt, DeriveError, Missing
from derive.images.documents import DocumentError
from derive.render.documents import launch_from_document
from derive.render.manifest_names import MANIFEST
from derive.render.plan import LAUNCH_BUNDLE_LABEL
from derive.render.units import guard_program

if TYPE_CHECKING:
    from derive.deploy.former import Former
    from derive.deploy.model import Container, Served, Step
    from derive.deploy.remote import Node
    from derive.deploy.work import Work

STEP = "undo"
FAILED = "failed"
PATIENCE_S = 60.0
"""How long a node that was lost is tried for, while going back."""
_LARGEST_GUARD = 16 << 20


@dataclass(slots=True, kw_only=True)
class Back:
    """How going back went. ``errors`` by node, ``""`` for what was no single one's; none: all is as it was before.

    ``others`` are what was put aside and runs again beside ``to``, or in its place: node and name of each.
    ``left`` says of every node what it was left with, where not all is as it was.
    """

    to: Served | None
    errors: dict[str, DeriveError] = field(default_factory=dict)
    others: tuple[tuple[str, str], ...] = ()
    left: dict[str, str] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Say whether all is as it was before."""
        return not self.errors


async def go_back(work: Work, failed: Step) -> Back:
    """Undo a deploy that failed in a step; what cannot be undone is among the answer's errors.

    The former release is started on all nodes or on none: its ranks are of no use without each other. A node that
    another deploy has meanwhile is left alone, and so are all others then.
    """
    former = work.former
    if former is None or not changes_machines(failed):
        return Back(to=None if former is None else former.served)
    back = Back(to=former.served if former.starts else None)
    work.reach.patience_s = PATIENCE_S
    ran = _ran(former)
    work.say(STEP, f"begins: back to {running_text(back.to, ran)}")
    _gather(back, await _take_down(work))
    if back.is_whole:
        troubles = await _restore_others(work)
        back.others = tuple((node, name) for node, name in ran if not isinstance(troubles.get(node), DeriveError))
        if former.starts:
            await _bring_back(work, back)
        else:
            await _leave_stopped(work, back)
            if former.lost:
                back.errors.setdefault("", _lost())
        _gather(back, troubles)
    if not back.is_whole:
        await _note_failure(work, back)
    work.say(STEP, f"done: {running_text(back.to, back.others)}" if back.is_whole else "failed")
    return back


def _lost() -> DeriveError:
    message = "what ran is stopped, and not started again: no release is known that ran well on every node"
    return DeriveError(message, hint="see what the nodes remember: derive status --json")


def _ran(former: Former) -> tuple[tuple[str, str], ...]:
    """Return what was put aside and is to run again, whoever started it: node and name of each."""
    return tuple((one.node, one.name) for one in former.others if one.running and not one.was_aside)


async def _take_down(work: Work) -> dict[str, str | DeriveError]:
    return await work.tried(f"{STEP} stop", lambda node: steps.take_down(work, node))


async def _bring_back(work: Work, back: Back) -> None:
    started = False
    try:
        target = await former_target(work)
        await _find_guard(work, target)
        await _supply(work, target)
        await steps.activate(work, target, f"{STEP} activate")
        started = True
        await steps.arm(work, target, f"{STEP} arm")
        await steps.start(work, target, f"{STEP} start")
        await steps.ready(work, target, f"{STEP} ready")
        started = False
        await steps.steady(work, target, f"{STEP} steady")
        await steps.observe(work, target, f"{STEP} observe")
        await steps.confirm(work, target, f"{STEP} record")
    except DeriveError as error:
        _failed(back, error)
        if started and not any(isinstance(one, Fenced) for one in back.errors.values()):
            # Some ranks of it run and wait for others that will not come.
            await evidence.keep(work, STEP)
            _gather(back, await _take_down(work))


def _failed(back: Back, error: DeriveError) -> None:
    for one in getattr(error, "errors", (error,)):
        back.errors.setdefault(str(getattr(one, "node", None) or ""), one)


async def _supply(work: Work, target: Target) -> None:
    """See to it that every node has what it starts: somebody may have removed image or files since it ran."""
    lacking: list[str] = []

    async def look(node: Node) -> None:
        if not await node.ask(engines.image_ids, steps.launch_of(target, node.rank).reference):
            lacking.append(node.name)

    await work.reach.all_of(look)
    if lacking and work.distribute is not None:
        work.say(f"{STEP} distribute", f"begins: its image is not on {', '.join(sorted(lacking))} any more")
        await work.distribute(work, target)
    await steps.stage(work, target, f"{STEP} stage")


async def _leave_stopped(work: Work, back: Back) -> None:
    """Let the links lead to what they led to, with nothing running; where they led nowhere, no unit is left either."""

    async def one(node: Node) -> str:
        before = work.before_of(node.name)
        current = None if before is None else before.current
        state = work.state(STOPPED, wanted=current, current=current, healthy=work.healthy_of(node.name))
        await work.lead_to(node, current, state)
        if current is None and node.name in work.with_systemd:
            # A slice stays active when nothing is left in it.
            slices = ["systemctl", "stop", f"derive-{work.service}.slice"]
            await run_fenced(node, work.held.fence, slices, sudo=True)
            await remove_units(node, work.held.fence, list(unit_names(work.service)))
        return "stopped, as before"

    _gather(back, await work.tried(STEP, one))


async def _restore_others(work: Work) -> dict[str, str | DeriveError]:
    others = () if work.former is None else work.former.others

    async def one(node: Node) -> str:
        said = [await put_back(work, node, other) for other in others if other.node == node.name]
        return ", ".join(text for text in said if text)

    nodes = {other.node for other in others}
    return await work.tried(STEP, one, nodes) if nodes else {}


async def _note_failure(work: Work, back: Back) -> None:
    """Let the nodes that answer remember that neither came up, and note of each what it was left with."""
    is_fenced = any(isinstance(error, Fenced) for error in back.errors.values())

    async def one(node: Node) -> str:
        if not is_fenced:
            await _write_failure(work, back, node)
        return await _left_with(work, node)

    work.reach.patience_s = 0
    for name, answer in (await work.reach.each(one)).items():
        known = answer if isinstance(answer, str) else f"what runs there is not known: {answer.message}"
        back.left[name] = known


async def _write_failure(work: Work, back: Back, node: Node) -> None:
    is_down, healthy = node.name not in back.errors, work.healthy_of(node.name)
    before = work.before_of(node.name)
    was = None if before is None else before.current
    current = (back.to or was) if is_down else work.target.served
    state = work.state(FAILED, wanted=work.target.served, current=current, healthy=healthy)
    if is_down:
        await work.lead_to(node, current, state)
    else:
        await work.write(node, state)


async def _left_with(work: Work, node: Node) -> str:
    """Say what a node runs of the service, and what waits there to get its name back."""
    others = () if work.former is None else work.former.others
    aside = [one for one in others if one.node == node.name and one.kind is Stood.CONTAINER and not one.was_aside]
    found = {one.name: one for one in await node.ask(engines.containers, [work.service, *(o.aside for o in aside)])}
    kept = [f"{one.name} is kept as {one.aside}" for one in aside if one.aside in found]
    return "; ".join((_runs(work, found.get(work.service)), *kept))


def _runs(work: Work, container: Container | None) -> str:
    if container is None or container.state not in UP:
        return "nothing runs"
    launch = container.labels.get(LAUNCH_BUNDLE_LABEL)
    known = (work.target.served, *(() if work.former is None or work.former.served is None else (work.former.served,)))
    for one in known:
        if str(one.launch_bundle) == launch:
            return f"{running_text(one)} runs"
    return "a container that no deploy started runs" if launch is None else f"{launch.rpartition(':')[2][:12]} runs"


def _gather(back: Back, answers: Mapping[str, object]) -> None:
    for name, answer in answers.items():
        if isinstance(answer, DeriveError):
            back.errors.setdefault(name, answer)


async def _find_guard(work: Work, target: Target) -> None:
    """Have the former release's guard to compare with: the head's own, where the store has its image no more."""
    try:
        await steps.guard_of(work, target)
    except Missing:
        path = guard_program(target.bundle.launches[0])
        head = await work.reach.node(work.reach.names[0])
        found = (await read_files(head, [path], limit=_LARGEST_GUARD)).get(path)
        if found is None:
            raise
        digest = sha256(found.data)
        work.guards[target.served.image] = GuardFile(data=found.data, digest=digest, layer=digest)


async def former_target(work: Work) -> Target:
    """Return what ran before as it is to run again: rendered as it was then, else from the files on the nodes.

    Raises:
        Corrupt: when a node has them no more, or they are not as they were staged.
    """
    former = work.former
    assert former is not None
    assert former.served is not None
    served = former.served
    known = await asyncio.to_thread(work.means.aim, served) if work.means.aim is not None else None
    if known is not None and known.served.launch_bundle == served.launch_bundle:
        return known
    folder = f"{work.folder}/{work.service}/launches/{served.launch_bundle.hex}"

    async def one(node: Node) -> dict[str, bytes]:
        return await _files_of(node, folder)

    by_node = await work.reach.all_of(one)
    try:
        launches = tuple(launch_from_document(decode(by_node[name]["container.json"])) for name in work.reach.names)
    except (KeyError, CanonicalError, DocumentError) as error:
        raise Corrupt(f"the launch files of {served.release} on the nodes cannot be read: {error}") from error
    base = (known or work.target).bundle
    files = {f"{name}/{path}": data for name, found in by_node.items() for path, data in found.items()}
    bundle = replace(
        base,
        image=served.image,
        shape=served.shape_bundle,
        launch=served.launch_bundle,
        launches=launches,
        files=dict(sorted(files.items())),
    )
    return Target(served=served, bundle=bundle)


async def _files_of(node: Node, folder: str) -> dict[str, bytes]:
    """Return a node's launch files, by their path, as its manifest lists them."""
    path = f"{folder}/{MANIFEST}"
    manifest = (await read_files(node, [path])).get(path)
    try:
        document: Any = None if manifest is None else decode(manifest.data)
    except CanonicalError:
        document = None
    if manifest is None or not isinstance(document, Mapping):
        raise Corrupt("its launch files are there no more", where=f"{node.name}: {folder}", hint="deploy it again")
    names = list(document["files"])
    found = await read_files(node, [f"{folder}/{name}" for name in names])
    return {MANIFEST: manifest.data} | {name: found[f"{folder}/{name}"].data for name in names}
