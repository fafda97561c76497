# SPDX-License-Identifier: Apache-2.0
"""From what was asked and what was seen to the plan of a deploy, with everything that stands against it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from derive.deploy import consents, plan, policy, preflight
from derive.deploy.again import PLAIN, Again
from derive.deploy.consents import Consent, Foreign
from derive.deploy.former import Standing as Stands
from derive.deploy.former import former_of
from derive.deploy.model import Stood
from derive.deploy.recovery_known import remembered
from derive.errors import Problem
from derive.render.plan import LAUNCH_BUNDLE_LABEL
from derive.words import near

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

    ``only_ahead``: nothing that serves is touched, so that nobody has to agree to anything that ends. ``lacks`` is what
    this machine itself lacks for it, and ``again`` what the commands that are proposed repeat.
    """

    target: Target
    site: SiteInput
    standing: Standing
    history: tuple[Deployed, ...]
    consents: frozenset[Consent]
    adopt: str | None = None
    notes: tuple[str, ...] = ()
    only_ahead: bool = False
    lacks: tuple[Problem, ...] = ()
    again: Again = PLAIN

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
            *asked.lacks,
            *(() if seen is None or asked.only_ahead else dict.fromkeys(_in_the_way_of(asked, seen))),
        ),
        findings=_findings(asked, seen, given),
        notes=asked.notes,
        others=() if seen is None else standing_in_the_way(asked, seen),
        only_ahead=asked.only_ahead,
        again=asked.again,
    )


def _given(asked: Asked, running: Mapping[str, Running]) -> frozenset[Consent]:
    """Return what was agreed to: to name a container that stands in the way is to agree that it is replaced."""
    if asked.only_ahead:
        return asked.consents | {Consent.REPLACE}
    every = [one for ones in running.values() for one in ones]
    is_adopted = all(isinstance(one, Foreign) and one.container.name == asked.adopt for one in every)
    return asked.consents | {Consent.REPLACE} if every and is_adopted else asked.consents


def _findings(asked: Asked, seen: Seen | None, given: frozenset[Consent]) -> tuple[preflight.Finding, ...]:
    if seen is None:
        return preflight.judge(asked.target, asked.site, {}, {}, given)
    others: dict[str, set[str]] = {}
    for one in standing_in_the_way(asked, seen):
        others.setdefault(one.node, set()).update((one.name, one.aside))
    return preflight.judge(
        asked.target,
        asked.site,
        seen.machines,
        seen.containers,
        given,
        moves=seen.moves,
        others=others,
        only_ahead=asked.only_ahead,
    )


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
    found = consents.needed(
        asked.target,
        running,
        None if seen is None else consents.shape_running(asked.target, running, seen.containers),
        policy.qualified(asked.target, asked.standing),
        experiment=asked.is_experiment,
    )
    if seen is None or not former_of(seen.states, seen.containers, (), service=asked.target.service).lost:
        return found
    forgot = ", ".join(name for name, state in seen.states.items() if state is None or not state.healthy)
    why = f"when it fails, nothing is gone back to: {forgot or 'no node'} remembers no release that ran well"
    return tuple(replace(one, because=(*one.because, why)) if one.consent is Consent.REPLACE else one for one in found)


def standing_in_the_way(asked: Asked, seen: Seen) -> tuple[Stands, ...]:
    """Return what is stopped beside the service's own container, node by node.

    What a deploy that is not over has stopped, as its node remembers, is among it: it ran before that one.
    """
    found = {(name, one.container.name): _stands(name, one.container) for name, one in _foreign(asked, seen)}
    for one in _left_aside(seen):
        now = found.get((one.node, one.name))
        found[one.node, one.name] = one if now is None or not now.running else replace(one, running=True)
        if not one.was_aside:
            found.pop((one.node, one.aside), None)  # the same one, which has that name for now
    return tuple(found.values())


def _left_aside(seen: Seen) -> Iterator[Stands]:
    for node, state in seen.states.items():
        names = {one.name: one.id for one in seen.containers.get(node, ())}
        for one in () if state is None or state.before is None else state.before.aside:
            kind = Stood(one.kind)
            there = names.get(f"{one.name}{consents.ASIDE}", names.get(one.name))
            if kind is Stood.SERVICE or there is not None:
                yield Stands(
                    node=node,
                    kind=kind,
                    name=one.name,
                    container=there or "",
                    running=one.running,
                    guard=one.guard,
                    restart=one.restart,
                )


def _in_the_way_of(asked: Asked, seen: Seen) -> Iterator[Problem]:
    yield from _taken_names(asked, seen)
    yield from _not_adopted(asked, seen)


def _not_adopted(asked: Asked, seen: Seen) -> Iterator[Problem]:
    """Yield that there is nothing to adopt by the name that was given; nothing where nobody looked at what runs."""
    name = asked.adopt
    if name is None or not seen.containers or any(one.name == name for one in standing_in_the_way(asked, seen)):
        return
    found = {one.name for containers in seen.containers.values() for one in containers}
    if name in found:
        message = f"the container {name} is the service's own: a deploy started it, and the next one ends it"
        yield Problem(where="--adopt", message=message, hint="leave --adopt out")
    else:
        message = f"no node has a container {name!r}"
        hint = near(name, found - {asked.target.service}) or "on a node: docker ps --all; or leave --adopt out"
        yield Problem(where="--adopt", message=message, hint=hint)


def _taken_names(asked: Asked, seen: Seen) -> Iterator[Problem]:
    """Yield each name under which a container would stand aside that another one has already."""
    names = {node: {one.name for one in found} for node, found in seen.containers.items()}
    for node, one in _foreign(asked, seen):
        aside = f"{one.container.name}{consents.ASIDE}"
        if not one.labelled and not consents.is_aside(one.container.name) and aside in names[node]:
            message = f"{one.container.name} cannot be kept as {aside}: that is there already"
            yield Problem(where=node, message=message, hint=f"where nobody wants it any more: docker rm {aside}")


def _stands(node: str, container: Container) -> Stands:
    is_aside = consents.is_aside(container.name)
    is_service = LAUNCH_BUNDLE_LABEL in container.labels and not is_aside
    return Stands(
        node=node,
        kind=Stood.SERVICE if is_service else Stood.CONTAINER,
        name=container.name,
        container=container.id,
        # What was moved aside is not to run: it does not come back.
        running=container.state == "running" and not is_aside,
        guard=None if is_service else f"{container.name.removesuffix(consents.ASIDE)}-memguard.service",
        restart=None if is_service else consents.restart_policy(container),
    )


def _foreign(asked: Asked, seen: Seen) -> Iterator[tuple[str, Foreign]]:
    """Yield what is no container of the service's own: of another name, or of its name and started by no deploy."""
    for name, ones in _running(asked, seen).items():
        for one in ones:
            if isinstance(one, Foreign) and not (one.labelled and one.container.name == asked.target.service):
                yield name, one
    for name, containers in seen.containers.items():
        for container in containers:
            is_own = LAUNCH_BUNDLE_LABEL in container.labels and container.name == asked.target.service
            if container.name == asked.adopt and not is_own:
                yield name, Foreign(container=container, why="is named by --adopt")
