# SPDX-License-Identifier: Apache-2.0
"""What a site goes back to when a deploy fails: what ran before, and what was stopped to make room.

Core: no IO. Standard library only.

``{folder}/{service}/launches`` of a node still has the files of what ran: going back needs nothing that was not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from derive.deploy.consents import ASIDE
from derive.deploy.model import Aside, Before, Container, NodeState, Served, Step
from derive.render.plan import LAUNCH_BUNDLE_LABEL

STOPPED = "stopped"
"""The step of a state that an operator's stop left."""


class Stood(Enum):
    """What a thing that is stopped to make room was."""

    SERVICE = "service"
    """A service of another name that a deploy started: its units or its supervisor are still there."""
    CONTAINER = "container"
    """A container that no deploy started. It is renamed, and its guard may be a unit ``NAME-memguard.service``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One thing that a deploy stops on a node beside the service's own container; ``guard`` is a unit, or None."""

    node: str
    kind: Stood
    name: str
    container: str
    running: bool
    guard: str | None = None

    @property
    def aside(self) -> str:
        """The name that a container has while it stands aside."""
        return f"{self.name}{ASIDE}"

    def remembered(self) -> Aside:
        """Return what its node remembers of it."""
        return Aside(kind=self.kind.value, name=self.name, running=self.running, guard=self.guard)


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """What ran before: ``served`` everywhere, None where no deploy ever came to be healthy; whether it was to run.

    ``states`` are what the nodes remembered before this deploy wrote anything.
    """

    served: Served | None
    was_running: bool
    others: tuple[Standing, ...] = ()
    states: Mapping[str, NodeState | None] = field(default_factory=dict)

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

    It is to run unless an operator stopped it, nothing ran, or a container that no deploy started ran in its place.
    After a deploy that was cut off, or did not come back, what was so before that one counts.
    """
    shared = _shared(states)
    befores = [state.before for state in states.values() if state is not None and state.before is not None]
    if befores:
        was_running = any(one.running for one in befores)
    else:
        ours = [one for seen in containers.values() for one in seen if LAUNCH_BUNDLE_LABEL in one.labels]
        runs = any(one.name == service and one.state == "running" for one in ours)
        to_run = any(state is not None and state.step != STOPPED for state in states.values())
        was_running = runs or (to_run and not _replaced(others, service))
    return Former(
        served=shared,
        was_running=shared is not None and was_running,
        others=tuple(others),
        states=dict(states),
    )


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
