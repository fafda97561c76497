# SPDX-License-Identifier: Apache-2.0
"""A deploy as a value, before anything is done: what stops and starts, what is moved, guarded, expected and consented.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from derive.canonical import Digest, Json
from derive.deploy.again import PLAIN, Again
from derive.deploy.consents import Consent, Foreign, InTheWay, Needed, Running, missing, running, running_text
from derive.deploy.former import Standing, former_of
from derive.deploy.history import Deployed, expected_seconds
from derive.deploy.machine_values import Machine
from derive.deploy.model import Container, NodeState, Served, Step, Stood, Target
from derive.deploy.preflight_finding import NOTHING_KNOWN, Finding
from derive.deploy.recovery_known import remembered
from derive.deploy.situation import Kind, Situation
from derive.errors import Problem
from derive.fabric.rule import SiteInput
from derive.recipes.resolved import GuardPhase
from derive.render.site_digest import site_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of the nodes, by name; ``moves`` are the bytes that each has still to get, None where unknown.

    ``seen_s`` is when, in seconds since 1970: facts may be stored ones. A node that did not answer is in none of them.
    """

    machines: Mapping[str, Machine]
    containers: Mapping[str, Sequence[Container]]
    states: Mapping[str, NodeState | None]
    moves: Mapping[str, int | None]
    situation: Situation | None
    seen_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """What a deploy does on one node: the bytes to move (None: unknown), and what stops there.

    ``is_looked_at`` is false where nobody knows what runs there.
    """

    name: str
    rank: int
    host: str
    move_bytes: int | None
    stops: Running
    is_looked_at: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A deploy, whole. ``expected`` are whole seconds by step, of steps of which something is known.

    ``refusals`` are what the records refuse, ``findings`` what the machines' facts say, ``needed`` the consents, and
    ``given`` those that were given. ``former`` is what it goes back to when it fails, None where that is nothing.
    ``aside`` are containers that no deploy started, and that come back then. ``past`` is how many deploys of the shape
    went well. ``notes`` stand against nothing. ``only_ahead``: image and files are brought, and no more. ``again`` is
    what the command that does it repeats.
    """

    served: Served
    service: str
    site: str
    site_digest: Digest
    platform: str
    nodes: tuple[NodePlan, ...]
    guards: tuple[GuardPhase, ...]
    expected: Mapping[Step, int]
    past: int
    needed: tuple[Needed, ...]
    given: frozenset[Consent]
    refusals: tuple[Problem, ...]
    findings: tuple[Finding, ...]
    seen_s: int | None
    former: Served | None
    situation: Situation | None = None
    notes: tuple[str, ...] = field(default=())
    aside: tuple[str, ...] = field(default=())
    only_ahead: bool = False
    again: Again = PLAIN

    @property
    def may_apply(self) -> bool:
        """Say whether nothing stands against it."""
        return not self.problems()

    @property
    def move_bytes(self) -> int | None:
        """The bytes that all nodes have still to get; None where that is unknown of one."""
        known = [one.move_bytes for one in self.nodes if one.move_bytes is not None]
        return sum(known) if len(known) == len(self.nodes) else None

    @property
    def is_running(self) -> bool:
        """Say whether just this launch serves on every node already."""
        found = self.situation
        serving = None if found is None or found.kind is not Kind.SERVING else found.served
        return serving is not None and serving.launch_bundle == self.served.launch_bundle

    @property
    def start_order(self) -> tuple[str, ...]:
        """The nodes in the order in which they start: workers by rank, then the head."""
        return tuple(one.name for one in (*self.nodes[1:], *self.nodes[:1]))

    def problems(self) -> tuple[Problem, ...]:
        """Return everything that stands against it: refusals, errors of machines, consents that are missing."""
        errors = [one.problem() for one in self.findings if one.severity == "error"]
        return (*self.refusals, *errors, *(one.problem() for one in missing(self.needed, self.given)))

    def is_unknown_alone(self) -> bool:
        """Say whether nothing stands against it but that nothing is known of machines."""
        errors = [one.id for one in self.findings if one.severity == "error"]
        return len(errors) == len(self.problems()) and set(errors) == {NOTHING_KNOWN}

    def document(self) -> dict[str, Json]:
        """Return it as the body of a record."""
        return {
            "served": self.served.document(),
            "service": self.service,
            "platform": self.platform,
            "site": {"name": self.site, "digest": str(self.site_digest)},
            "nodes": [_node_document(one) for one in self.nodes],
            "start_order": list(self.start_order),
            "move_bytes": self.move_bytes,
            "guards": [
                {
                    "phase": one.phase,
                    "floor_bytes": one.floor_bytes,
                    "interval": {"decimal": one.interval},
                    "wait_s": one.wait_seconds,
                }
                for one in self.guards
            ],
            "expected_s": {step.value: seconds for step, seconds in self.expected.items()},
            "past_deploys": self.past,
            "consents": [
                {"option": one.consent.value, "because": list(one.because), "given": one.consent in self.given}
                for one in self.needed
            ],
            "refusals": [{"where": one.where, "message": one.message, "hint": one.hint} for one in self.refusals],
            "findings": [one.document() for one in self.findings],
            "former": None if self.former is None else self.former.document(),
            "aside": list(self.aside),
            "situation": None if self.situation is None else self.situation.document(),
            "seen_s": self.seen_s,
            "may_apply": self.may_apply,
            "is_running": self.is_running,
            "only_ahead": self.only_ahead,
            "notes": list(self.notes),
        }


def make(
    target: Target,
    site: SiteInput,
    seen: Seen | None,
    history: Sequence[Deployed],
    consents: Collection[Consent],
    *,
    needed: Sequence[Needed] = (),
    refusals: Sequence[Problem] = (),
    findings: Sequence[Finding] = (),
    notes: Sequence[str] = (),
    others: Sequence[Standing] = (),
    only_ahead: bool = False,
    again: Again = PLAIN,
) -> Plan:
    """Make the plan of a deploy; ``seen`` None: no node was asked, and what runs there is unknown.

    ``others`` are what is stopped beside the service's own container.
    """
    served = target.served
    nodes = tuple(_nodes(target, site, seen))
    known = [one.move_bytes for one in nodes if one.move_bytes is not None]
    move_bytes = sum(known) if len(known) == len(nodes) else None
    alike = (served.recipe, served.shape)
    return Plan(
        served=served,
        service=target.service,
        site=site.site.name,
        site_digest=site_digest(site.site),
        platform=target.bundle.resolved.platform,
        nodes=nodes,
        guards=target.bundle.launches[0].guard,
        expected=expected_seconds(history, served, move_bytes=move_bytes),
        past=sum(one.outcome == "done" and (one.served.recipe, one.served.shape) == alike for one in history),
        needed=tuple(needed),
        given=frozenset(consents),
        refusals=tuple(refusals),
        findings=tuple(findings),
        seen_s=None if seen is None else seen.seen_s,
        former=None if seen is None else _former(seen, others, target.service),
        situation=None if seen is None else seen.situation,
        notes=tuple(notes),
        aside=tuple(sorted({one.name for one in others if one.kind is Stood.CONTAINER and one.running})),
        only_ahead=only_ahead,
        again=again,
    )


def _nodes(target: Target, site: SiteInput, seen: Seen | None) -> list[NodePlan]:
    containers = {} if seen is None else seen.containers
    states = {} if seen is None else seen.states
    stops = running(target, containers, {name: remembered(state) for name, state in states.items()})
    return [
        NodePlan(
            name=node.name,
            rank=node.rank,
            host=node.ssh_host,
            move_bytes=None if seen is None else seen.moves.get(node.name),
            stops=stops.get(node.name, ()),
            is_looked_at=node.name in containers,
        )
        for node in site.site.nodes
    ]


def _former(seen: Seen, others: Sequence[Standing], service: str) -> Served | None:
    """Return the release that is started again when the deploy fails."""
    former = former_of(seen.states, seen.containers, others, service=service)
    return former.served if former.starts else None


def _node_document(one: NodePlan) -> dict[str, Json]:
    return {
        "node": one.name,
        "rank": one.rank,
        "host": one.host,
        "move_bytes": one.move_bytes,
        "stops": [_stops_document(stops) for stops in one.stops],
        "looked_at": one.is_looked_at,
    }


def _stops_document(one: InTheWay) -> dict[str, Json]:
    match one:
        case Served():
            return {"text": running_text(one), "served": one.document(), "container": None}
        case Foreign():
            return {"text": running_text(one), "served": None, "container": one.container.id}
