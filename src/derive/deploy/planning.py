# SPDX-License-Identifier: Apache-2.0
"""From what was asked and what was seen to the plan of a deploy, with everything that stands against it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from derive.deploy import consents, plan, policy, preflight
from derive.deploy.consents import Consent, Foreign
from derive.deploy.former import Standing as Stands
from derive.deploy.former import Stood
from derive.deploy.recovery_known import remembered
from derive.errors import Problem
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
    """What an operator asked for. ``adopt`` names a container that may be stopped whatever it is, None for none.

    ``only_ahead``: nothing that serves is touched, so that nobody has to agree to anything that ends.
    """

    target: Target
    site: SiteInput
    standing: Standing
    history: tuple[Deployed, ...]
    consents: frozenset[Consent]
    adopt: str | None = None
    notes: tuple[str, ...] = ()
    only_ahead: bool = False

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
        needed=() if asked.only_ahead else _needed(asked, seen, running),
        refusals=(
            *policy.refusals(target, asked.standing, experiment=asked.is_experiment),
            *(() if seen is None or asked.only_ahead else dict.fromkeys(_taken_names(asked, seen))),
        ),
        findings=() if seen is None else _findings(asked, seen, given),
        notes=asked.notes,
        others=() if seen is None else standing_in_the_way(asked, seen),
        only_ahead=asked.only_ahead,
    )


def _given(asked: Asked, running: Mapping[str, Running]) -> frozenset[Consent]:
    """Return what was agreed to: to name a container that stands in the way is to agree that it is replaced."""
    if asked.only_ahead:
        return asked.consents | {Consent.REPLACE}
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
    """Return what is stopped beside the service's own container, node by node.

    What a deploy that is not over has stopped, as its node remembers, is among it: it ran before that one.
    """
    found = {(name, one.container.name): _stands(name, one.container) for name, one in _foreign(asked, seen)}
    for one in _left_aside(seen):
        now = found.get((one.node, one.name))
        found[one.node, one.name] = one if now is None or not now.running else replace(one, running=True)
    return tuple(found.values())


def _left_aside(seen: Seen) -> Iterator[Stands]:
    for node, state in seen.states.items():
        names = {one.name: one.id for one in seen.containers.get(node, ())}
        for one in () if state is None or state.before is None else state.before.aside:
            kind = Stood(one.kind)
            there = names.get(f"{one.name}{consents.ASIDE}", names.get(one.name))
            if kind is Stood.SERVICE or there is not None:
                yield Stands(
                    node=node, kind=kind, name=one.name, container=there or "", running=one.running, guard=one.guard
                )


def _taken_names(asked: Asked, seen: Seen) -> Iterator[Problem]:
    """Yield each name under which a container would stand aside that another one has already."""
    names = {node: {one.name for one in found} for node, found in seen.containers.items()}
    for node, one in _foreign(asked, seen):
        aside = f"{one.container.name}{consents.ASIDE}"
        if not one.labelled and aside in names[node]:
            message = f"{one.container.name} cannot be kept as {aside}: that is there already"
            yield Problem(where=node, message=message, hint=f"where nobody wants it any more: docker rm {aside}")


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
