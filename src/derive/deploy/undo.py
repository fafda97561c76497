# SPDX-License-Identifier: Apache-2.0
"""Goes back to what ran before: takes down what a deploy started, and brings the former release up by the same steps.

Edge: the nodes and their engines.

The former release's launch files still lie on the nodes, and are read from there: nothing that changed since decides
what runs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from derive.canonical import CanonicalError, decode, sha256
from derive.deploy import steps
from derive.deploy.effects import read_files, remove_units, run_fenced
from derive.deploy.evidence import unit_names
from derive.deploy.former import STOPPED, changes_machines
from derive.deploy.guard import GuardFile
from derive.deploy.model import Target
from derive.deploy.node_errors import Fenced
from derive.deploy.room import put_back
from derive.errors import Corrupt, DeriveError, Missing
from derive.images.documents import DocumentError
from derive.render.documents import launch_from_document
from derive.render.manifest_names import MANIFEST
from derive.render.units import guard_program

if TYPE_CHECKING:
    from derive.deploy.model import Served, Step
    from derive.deploy.remote import Node
    from derive.deploy.work import Work

STEP = "undo"
FAILED = "failed"
PATIENCE_S = 60.0
"""How long a node that was lost is tried for, while going back."""
_LARGEST_GUARD = 16 << 20


@dataclass(slots=True, kw_only=True)
class Back:
    """How going back went. ``errors`` by node, ``""`` for what was no single one's; none: all is as it was before."""

    to: Served | None
    errors: dict[str, DeriveError] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Say whether all is as it was before."""
        return not self.errors


async def go_back(work: Work, failed: Step) -> Back:
    """Undo a deploy that failed in a step; what cannot be undone is among the answer's errors.

    A node that another deploy has meanwhile is left alone, and so are all others then.
    """
    former = work.former
    if former is None or not changes_machines(failed):
        return Back(to=None if former is None else former.served)
    back = Back(to=former.served if former.starts else None)
    work.reach.patience_s = PATIENCE_S
    work.say(STEP, f"begins: back to {text_of(back.to)}")
    await _take_down(work, back)
    if back.is_whole and former.starts:
        await _bring_back(work, back)
    elif back.is_whole:
        await _leave_stopped(work, back)
    if back.is_whole:
        await _restore_others(work, back)
    if not back.is_whole:
        await _note_failure(work, back)
    work.say(STEP, f"done: {text_of(back.to)}" if back.is_whole else "failed")
    return back


def text_of(served: Served | None) -> str:
    """Name a release with its launch digest."""
    return "nothing running" if served is None else f"{served.release} ({served.launch_bundle.short})"


async def _take_down(work: Work, back: Back) -> None:
    async def one(node: Node) -> str:
        return await steps.take_down(work, node)

    _gather(back, await work.tried(f"{STEP} stop", one))


async def _bring_back(work: Work, back: Back) -> None:
    try:
        target = await former_target(work)
        await _find_guard(work, target)
        await steps.activate(work, target, f"{STEP} activate")
        await steps.arm(work, target, f"{STEP} arm")
        await steps.start(work, target, f"{STEP} start")
        await steps.ready(work, target, f"{STEP} ready")
        await steps.steady(work, target, f"{STEP} steady")
        await steps.observe(work, target, f"{STEP} observe")
        await steps.confirm(work, target, f"{STEP} record")
    except DeriveError as error:
        back.errors[str(getattr(error, "node", None) or "")] = error


async def _leave_stopped(work: Work, back: Back) -> None:
    """Let the links lead to what they led to, with nothing running; where they led nowhere, no unit is left either."""

    async def one(node: Node) -> str:
        current = work.current_of(node.name)
        state = work.state(STOPPED, wanted=current, current=current, healthy=work.healthy_of(node.name))
        await work.lead_to(node, current, state)
        if current is None and node.name in work.with_systemd:
            # A slice stays active when nothing is left in it.
            slices = ["systemctl", "stop", f"derive-{work.service}.slice"]
            await run_fenced(node, work.held.fence, slices, sudo=True)
            await remove_units(node, work.held.fence, list(unit_names(work.service)))
        return "stopped, as before"

    _gather(back, await work.tried(STEP, one))


async def _restore_others(work: Work, back: Back) -> None:
    others = () if work.former is None else work.former.others

    async def one(node: Node) -> str:
        said = [await put_back(work, node, other) for other in others if other.node == node.name]
        return ", ".join(text for text in said if text)

    nodes = {other.node for other in others}
    if nodes:
        _gather(back, await work.tried(STEP, one, nodes))


async def _note_failure(work: Work, back: Back) -> None:
    """Let the nodes that answer remember that neither came up; what could not be written is no further error."""
    if any(isinstance(error, Fenced) for error in back.errors.values()):
        return

    async def one(node: Node) -> None:
        is_down, healthy = node.name not in back.errors, work.healthy_of(node.name)
        current = back.to or work.current_of(node.name) if is_down else work.target.served
        state = work.state(FAILED, wanted=work.target.served, current=current, healthy=healthy)
        if is_down:
            await work.lead_to(node, current, state)
        else:
            await work.write(node, state)

    work.reach.patience_s = 0
    await work.reach.each(one)


def _gather(back: Back, answers: Mapping[str, object]) -> None:
    back.errors |= {name: answer for name, answer in answers.items() if isinstance(answer, DeriveError)}


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
    """Return what ran before as it is to run again, from the files on the nodes.

    Raises:
        Corrupt: when a node has them no more, or they are not as they were staged.
    """
    former = work.former
    assert former is not None
    assert former.served is not None
    served = former.served
    folder = f"{work.folder}/{work.service}/launches/{served.launch_bundle.hex}"

    async def one(node: Node) -> dict[str, bytes]:
        return await _files_of(node, folder)

    by_node = await work.reach.all_of(one)
    known = work.means.aim(served) if work.means.aim is not None else None
    if known is not None and known.served.launch_bundle == served.launch_bundle:
        return known
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
