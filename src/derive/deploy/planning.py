# SPDX-License-Identifier: Apache-2.0
"""From what was asked and what was seen to the plan of a deploy, with everything that stands against it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.deploy import consents, plan, policy, preflight
from derive.deploy.consents import Consent, Foreign
from derive.deploy.former import Standing as Stands
from derive.deploy.former import Stood
from derive.deploy.recovery_known import remembered
from derive.render.plan import LAUNCH_BUNDLE_LABEL

if TYPE_CHECKING:
    from derive.deploy.consents import Needed, Running
    from derive.deploy.history import Deployed
    from derive.deploy.model import Container, Served, Target
    from derive.deploy.plan import Plan, Seen
    from derive.deploy.policy import Standing
    from derive.fabric.rule import SiteInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an operator asked for. ``adopt`` names a container that may be stopped whatever it is, None for none."""

    target: Target
    site: SiteInput
    standing: Standing
    history: tuple[Deployed, ...]
    consents: frozenset[Consent]
    adopt: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_experiment(self) -> bool:
        """Say whether the policy for experiments holds."""
        return Consent.EXPERIMENT in self.consents


def planned(asked: Asked, seen: Seen | None) -> Plan:
    """Make the plan; ``seen`` None: no node was asked."""
    target = asked.target
    running = _running(asked, seen)
    given = _given(asked, running)
    return plan.make(
        target,
        asked.site,
        seen,
        asked.history,
        given,
        needed=_needed(asked, seen, running),
        refusals=policy.refusals(target, asked.standing, experiment=asked.is_experiment),
        findings=() if seen is None else _findings(asked, seen, given),
        notes=asked.notes,
    )


def _given(asked: Asked, running: Mapping[str, Running]) -> frozenset[Consent]:
    """Return what was agreed to: to name a container that stands in the way is to agree that it is replaced."""
    every = [one for ones in running.values() for one in ones]
    is_adopted = all(isinstance(one, Foreign) and one.container.name == asked.adopt for one in every)
    return asked.consents | {Consent.REPLACE} if every and is_adopted else asked.consents


def _findings(asked: Asked, seen: Seen, given: frozenset[Consent]) -> tuple[preflight.Finding, ...]:
    return preflight.judge(asked.target, asked.site, seen.machines, seen.containers, given, moves=seen.moves)


def _running(asked: Asked, seen: Seen | None) -> dict[str, Running]:
    """Return what runs on each node; where no node was asked, what the last deploy left there."""
    if seen is not None and seen.containers:
        known = {name: remembered(state) for name, state in seen.states.items()}
        return consents.running(asked.target, seen.containers, known)
    last = _last(asked)
    return {node.name: () if last is None else (last,) for node in asked.site.site.nodes}


def _last(asked: Asked) -> Served | None:
    found = [one for one in asked.history if one.service == asked.target.service]
    if not found:
        return None
    return found[-1].served if found[-1].outcome == "done" else found[-1].former


def _needed(asked: Asked, seen: Seen | None, running: Mapping[str, Running]) -> tuple[Needed, ...]:
    return consents.needed(
        asked.target,
        running,
        None if seen is None else consents.shape_running(asked.target, running, seen.containers),
        policy.qualified(asked.target, asked.standing),
        experiment=asked.is_experiment,
    )


def standing_in_the_way(asked: Asked, seen: Seen) -> tuple[Stands, ...]:
    """Return what is stopped beside the service's own container, node by node."""
    found = {(name, one.container.name): one.container for name, one in _foreign(asked, seen)}
    return (*(_stands(name, container) for (name, _), container in found.items()), *_left_aside(seen))


def _left_aside(seen: Seen) -> Iterator[Stands]:
    """Yield what a deploy that was cut off put aside, while no deploy of ours ever came to be healthy there."""
    for node, containers in seen.containers.items():
        state = seen.states.get(node)
        if state is None or state.healthy:
            continue
        for one in containers:
            if one.name.endswith(consents.ASIDE):
                name = one.name.removesuffix(consents.ASIDE)
                guard = f"{name}-memguard.service"
                yield Stands(node=node, kind=Stood.CONTAINER, name=name, container=one.id, running=True, guard=guard)


def _stands(node: str, container: Container) -> Stands:
    is_service = LAUNCH_BUNDLE_LABEL in container.labels
    return Stands(
        node=node,
        kind=Stood.SERVICE if is_service else Stood.CONTAINER,
        name=container.name,
        container=container.id,
        running=container.state == "running",
        guard=None if is_service else f"{container.name}-memguard.service",
    )


def _foreign(asked: Asked, seen: Seen) -> Iterator[tuple[str, Foreign]]:
    """Yield what is no container of the service's own: of another name, or of its name and started by no deploy."""
    for name, ones in _running(asked, seen).items():
        for one in ones:
            if isinstance(one, Foreign) and not (one.labelled and one.container.name == asked.target.service):
                yield name, one
    for name, containers in seen.containers.items():
        for container in containers:
            if container.name == asked.adopt:
                yield name, Foreign(container=container, why="is named by --adopt")
