# SPDX-License-Identifier: Apache-2.0
"""What a site goes back to when a deploy fails: what ran before, and what was stopped to make room.

Core: no IO. Standard library only.

``{folder}/{service}/launches`` of a node still has the files of what ran: going back needs nothing that was not there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from derive.canonical import Digest
from derive.deploy.consents import ASIDE, is_aside
from derive.deploy.model import Aside, Before, Container, NodeState, Served, Step, Stood
from derive.deploy.recovery_known import FAILED, SUPERVISED
from derive.deploy.situation import UP
from derive.render.plan import LAUNCH_BUNDLE_LABEL

STOPPED = "stopped"
"""The step of a state that an operator's stop left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One thing that a deploy stops on a node beside the service's own container; ``guard`` is a unit, or None.

    ``restart`` is a container's restart policy before, None where nobody knows it. One that stands aside already, and
    runs again all the same, keeps its name, and is not what a deploy goes back to: ``was_aside``.
    """

    node: str
    kind: Stood
    name: str
    container: str
    running: bool
    guard: str | None = None
    restart: str | None = None

    @property
    def was_aside(self) -> bool:
        """Say whether an earlier deploy moved it aside."""
        return self.kind is Stood.CONTAINER and is_aside(self.name)

    @property
    def aside(self) -> str:
        """The name that a container has while it stands aside."""
        return self.name if self.was_aside else f"{self.name}{ASIDE}"

    def remembered(self) -> Aside:
        """Return what its node remembers of it."""
        return Aside(kind=self.kind.value, name=self.name, running=self.running, guard=self.guard, restart=self.restart)


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """What ran before: ``served`` everywhere, None where no deploy ever came to be healthy; whether it was to run.

    ``states`` are what the nodes remembered before this deploy wrote anything. ``lost``: something of a deploy's ran,
    and nobody knows a release that every node was well with.
    """

    served: Served | None
    was_running: bool
    others: tuple[Standing, ...] = ()
    states: Mapping[str, NodeState | None] = field(default_factory=dict)
    lost: bool = False

    @property
    def starts(self) -> bool:
        """Say whether going back starts something."""
        return self.was_running and self.served is not None

    def before(self, node: str) -> Before:
        """Return what a node was in: before a deploy that was cut off, where that has left it in between."""
        state = self.states.get(node)
        began = None if state is None else state.before
        current = None if state is None else state.current
        return Before(
            current=current if began is None else began.current,
            running=self.was_running,
            aside=tuple(one.remembered() for one in self.others if one.node == node),
        )


def former_of(
    states: Mapping[str, NodeState | None],
    containers: Mapping[str, Sequence[Container]],
    others: Sequence[Standing],
    *,
    service: str,
) -> Former:
    """Return what to go back to: the newest that every node once ran well; ``others`` are what is stopped beside it.

    It is to run where it ran, on any node: what had ended by itself, or was stopped for good, stays so. Where nobody
    looked at containers, what the nodes remember counts. After a deploy that was cut off, or did not come back, what
    was so before that one does.
    """
    shared = _shared(states)
    known = [state for state in states.values() if state is not None and not _gave_up(state)]
    befores = [state.before for state in known if state.before is not None]
    if befores:
        was_running = any(one.running for one in befores)
    elif containers:
        ours = [one for seen in containers.values() for one in seen if LAUNCH_BUNDLE_LABEL in one.labels]
        was_running = any(one.name == service and one.state in UP for one in ours)
    else:
        was_running = any(state.step != STOPPED for state in known) and not _replaced(others, service)
    return Former(
        served=shared,
        was_running=shared is not None and was_running,
        others=tuple(others),
        states=dict(states),
        lost=shared is None and was_running and bool(befores or containers),
    )


def mended(
    states: Mapping[str, NodeState | None], there: Mapping[str, Collection[Digest]], links: Mapping[str, Digest | None]
) -> dict[str, NodeState | None]:
    """Return what nodes remember; of a node whose state is lost, what the others remember that it has to do with.

    ``there`` are the launches that a node has files or a container of, ``links`` where its link leads. A launch is for
    all nodes: where one of them was well with it, all were.
    """
    newest = max((one for one in states.values() if one is not None), key=lambda one: one.at_s, default=None)
    if newest is None:
        return dict(states)
    return {
        name: _mended(newest, there.get(name, ()), links.get(name)) if state is None else state
        for name, state in states.items()
    }


def launches_of(containers: Sequence[Container], service: str) -> frozenset[Digest]:
    """Return the launches that a node's containers of a service were started from."""
    found = set()
    for one in containers:
        with suppress(ValueError):
            if one.name == service:
                found.add(Digest.parse(one.labels.get(LAUNCH_BUNDLE_LABEL, "")))
    return frozenset(found)


def _mended(newest: NodeState, there: Collection[Digest], link: Digest | None) -> NodeState | None:
    healthy = tuple(one for one in newest.healthy if one.launch_bundle in there)
    known = (newest.current, newest.wanted, *newest.healthy)
    current = next((one for one in known if one is not None and one.launch_bundle == link), None)
    if not healthy and current is None:
        return None
    before = None if newest.before is None else replace(newest.before, aside=())
    return replace(newest, healthy=healthy, current=current, before=before)


def _gave_up(state: NodeState) -> bool:
    """Say whether a service was stopped for good after a rank of it had died: what it was before is over."""
    return state.step == FAILED and state.deploy.startswith(SUPERVISED)


def _replaced(others: Sequence[Standing], service: str) -> bool:
    """Say whether a container that no deploy started runs under the service's own name."""
    return any(one.kind is Stood.CONTAINER and one.name == service and one.running for one in others)


def _shared(states: Mapping[str, NodeState | None]) -> Served | None:
    """Return the newest launch that every node was healthy with; None where a node has none."""
    every = [() if state is None else state.healthy for state in states.values()]
    if not every:
        return None
    others = [{one.launch_bundle for one in healthy} for healthy in every[1:]]
    return next((one for one in every[0] if all(one.launch_bundle in known for known in others)), None)


def changes_machines(step: Step) -> bool:
    """Say whether a deploy that fails in a step has stopped, or begun to stop, what ran."""
    return step.number >= Step.STOP.number
