# SPDX-License-Identifier: Apache-2.0
"""What each node of a service runs and whether that is as it should be, as a value, a table and a record.

Core: no IO. Standard library only.

What is compared here is what every node knows by itself: its state, the label and image of its container, its guards.
Every argument, variable and mount is compared by ``derive drift``, which renders the release again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from derive.canonical import Json
from derive.deploy.again import PLAIN, Again
from derive.deploy.consents import is_aside
from derive.deploy.guard_records import GuardKill, guard_ended
from derive.deploy.incident import RankSeen, exit_text
from derive.deploy.kernel_log import KernelKill
from derive.deploy.model import Container, GuardSeen, NodeState, Served
from derive.deploy.recovery import UP, Kind, LeaseSeen, NodeRuns, Situation, judge
from derive.deploy.recovery_known import STOPPED
from derive.render.plan import LAUNCH_BUNDLE_LABEL
from derive.words import columns, duration_text

_RIGHT: Final = frozenset({1})
_HEADER: Final = ("node", "rank", "release", "launch", "container", "since (UTC)", "image", "guard")
_WELL: Final = frozenset({Kind.SERVING, Kind.STOPPED, Kind.NOTHING, Kind.DEPLOYING})
"""One that deploys sees to it that all is well in the end: it is waited for."""
_NOTHING: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """One node as it was seen.

    ``trouble`` says why it could not be asked, None where it answered; ``damaged`` what is wrong with its state or its
    link. ``containers`` are all that its engine has. ``guards`` and ``state`` are those of the one service that was
    asked for. ``ahead_ns`` is what the node's clock is ahead of the operator's; ``answered_ns`` when it answered, by
    the operator's clock.
    """

    node: str
    rank: int
    trouble: str | None = None
    state: NodeState | None = None
    damaged: str | None = None
    containers: tuple[Container, ...] = ()
    guards: tuple[GuardSeen, ...] = ()
    lease: LeaseSeen | None = None
    ahead_ns: int = 0
    answered_ns: int = 0

    def container(self, service: str) -> Container | None:
        """Return the service's container."""
        return next((one for one in self.containers if one.name == service), None)

    def as_rank(self, service: str, kills: Iterable[GuardKill] = (), kernel: KernelKill | None = None) -> RankSeen:
        """Return it as a rank of the service that may have died."""
        return RankSeen(
            node=self.node,
            rank=self.rank,
            container=self.container(service),
            guards=self.guards,
            kills=tuple(kills),
            kernel=kernel,
            ahead_ns=self.ahead_ns,
            answered_ns=self.answered_ns,
            trouble=self.trouble,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A service at a site. ``amiss`` are what is not as it should be, by node; empty where all is well.

    ``again`` is what commands that are proposed repeat.
    """

    service: str
    situation: Situation
    seen: tuple[NodeSeen, ...]
    amiss: tuple[tuple[str, str], ...]
    again: Again = PLAIN

    @property
    def is_well(self) -> bool:
        """Say whether nothing is to be done: all serve the same and are guarded, nothing is to run, or one deploys."""
        return self.situation.kind in _WELL and not self.amiss

    @property
    def is_amiss(self) -> bool:
        """Say whether something is known not to be as it should be; a node that cannot be asked is not known."""
        lost = {one.node for one in self.seen if one.trouble is not None}
        kind = self.situation.kind
        return any(node not in lost for node, _ in self.amiss) or (kind not in _WELL and kind is not Kind.UNKNOWN)

    def document(self) -> dict[str, Json]:
        """Return it as the body of a record."""
        runs = {one.node: one for one in self.situation.nodes}
        return {
            "service": self.service,
            "well": self.is_well,
            "situation": self.situation.document(),
            "nodes": [_node_document(one, runs.get(one.node), self.service) for one in self.seen],
            "amiss": [{"node": node, "what": what} for node, what in self.amiss],
        }


def status(service: str, seen: Sequence[NodeSeen], *, again: Again = PLAIN) -> Status:
    """Judge what was seen of a service; nodes in order of rank. ``again`` is what proposed commands repeat."""
    situation = judge(
        {one.node: one.state for one in seen},
        {one.node: None if one.trouble else one.containers for one in seen},
        {one.node: one.lease for one in seen},
        service=service,
        again=again,
    )
    # Where not all can be asked, what those that answer remember says whether it is to run.
    to_run = any(one.state is not None and one.state.step != STOPPED for one in seen if one.trouble is None)
    expects = situation.kind in (Kind.SERVING, Kind.MIXED, Kind.FAILED) or (situation.kind is Kind.UNKNOWN and to_run)
    amiss = [(one.node, what) for one in seen for what in _amiss(one, service, expects=expects)]
    return Status(service=service, situation=situation, seen=tuple(seen), amiss=tuple(amiss), again=again)


def status_text(found: Status) -> str:
    """Return it for people: what it is in, a row for each node, what is amiss, who deploys, and what to do next."""
    runs = {one.node: one for one in found.situation.nodes}
    rows = [_HEADER, *(_row(one, runs.get(one.node), found.service) for one in found.seen)]
    facts = [*_leases(found.seen), ("next", _next(found))]
    parts = [f"{found.service}: {found.situation.headline}", "\n".join(columns(rows, _RIGHT))]
    if found.amiss:
        parts.append("\n".join(columns([(f"{node}:", what) for node, what in found.amiss])))
    parts.append("\n".join(columns(facts)))
    return "\n\n".join(parts)


def _next(found: Status) -> str:
    """Return what to do next: what a situation says, unless all nodes serve and something is amiss all the same."""
    served = found.situation.served
    if found.situation.kind is Kind.SERVING and found.amiss and served is not None:
        return f"mend that, or deploy it again: {found.again.deploy(served, ('--replace',))}"
    return found.situation.next


def services_of(seen: Iterable[NodeSeen], states: Iterable[str]) -> tuple[str, ...]:
    """Return the services that nodes remember or run: ``states`` are the names that nodes have a state of."""
    running = {
        one.name
        for node in seen
        for one in node.containers
        if one.labels.get(LAUNCH_BUNDLE_LABEL) and not is_aside(one.name)
    }
    return tuple(sorted(running | set(states)))


def guard_text(guards: Sequence[GuardSeen]) -> str:
    """Say which guard is at work: the steady one, where there are two."""
    if not guards:
        return _NOTHING
    alive = [one for one in guards if one.alive]
    if not alive:
        return "none at work"
    last = max(alive, key=lambda one: one.phase == "steady")
    return f"{last.phase}, {last.says or 'says nothing'}"


def _amiss(one: NodeSeen, service: str, *, expects: bool) -> Iterable[str]:
    """Yield what a node itself shows to be wrong; ``expects``: something is to run."""
    if one.trouble is not None:
        yield f"cannot be asked: {one.trouble}"
        return
    if one.damaged is not None:
        yield one.damaged
    for aside in one.containers:
        if is_aside(aside.name) and aside.state in UP:
            ends = f"derive stop --container {aside.name} --apply"
            yield f"{aside.name}, which was moved aside, runs again, and nothing guards it: {ends}"
    found, current = one.container(service), None if one.state is None else one.state.current
    if found is None:
        if expects:
            yield "no container, and one is to run"
        return
    if found.state != "running":
        if expects:
            yield f"the container does not run: {exit_text(found)}"
        return
    if found.oom_killed:
        yield "the kernel killed a process in the container for want of memory (OOM), and it runs on"
    yield from _against(found, current)
    if expects and one.guards:
        yield from _guarded(one.guards, service)


def _guarded(guards: Sequence[GuardSeen], service: str) -> Iterable[str]:
    alive = {guard.phase for guard in guards if guard.alive}
    if not alive:
        why = guard_ended(guards)
        yield f"the container runs without a memory guard{f': {why}' if why else ''}"
    elif "steady" not in alive and any(guard.phase == "steady" for guard in guards):
        hint = f"sudo systemctl start derive-{service}-guard-steady, or deploy it again"
        yield f"it is guarded as while it starts, and the steady guard is not at work: {hint}"


def _against(found: Container, current: Served | None) -> Iterable[str]:
    """Yield in what a running container is not what the node's state says."""
    launch = found.labels.get(LAUNCH_BUNDLE_LABEL)
    if launch is None:
        yield "no deploy started this container: adopt it (derive deploy --adopt), or stop it (derive stop --container)"
    elif current is not None and launch != str(current.launch_bundle):
        yield f"runs the launch {_short(launch)}, and its state says {current.launch_bundle.short}"
    elif current is not None and str(current.image) not in found.image_ids:
        known = ", ".join(map(_short, found.image_ids))
        yield f"its image is not {current.image.short}: the engine knows it as {known}"


def _row(one: NodeSeen, runs: NodeRuns | None, service: str) -> tuple[str, ...]:
    if one.trouble is not None:
        return (one.node, str(one.rank), *["?"] * (len(_HEADER) - 2))
    found = one.container(service)
    served = None if runs is None else runs.served
    launch = None if found is None else found.labels.get(LAUNCH_BUNDLE_LABEL)
    return (
        one.node,
        str(one.rank),
        _NOTHING if served is None else served.release,
        _NOTHING if launch is None else _short(launch),
        _NOTHING if found is None else found.state,
        _since(found),
        _image(found, served),
        guard_text(one.guards) if found is not None and found.state == "running" else _NOTHING,
    )


def _since(found: Container | None) -> str:
    at = None if found is None else found.started if found.state == "running" else found.finished
    return _NOTHING if not at or at.startswith("0001-") else at[:19].replace("T", " ")


def _image(found: Container | None, served: Served | None) -> str:
    if found is None:
        return _NOTHING
    if served is None or str(served.image) not in found.image_ids:
        return _short(found.image)
    return served.image.short


def _leases(seen: Iterable[NodeSeen]) -> Iterable[tuple[str, str]]:
    """Yield who has leases, one line for each owner, with the nodes; nothing where they are free."""
    held: dict[str, list[NodeSeen]] = {}
    for one in seen:
        if one.lease is not None:
            held.setdefault(one.lease.owner, []).append(one)
    for owner, nodes in held.items():
        leases = [one.lease for one in nodes if one.lease is not None]
        left = max(lease.expires_in_s for lease in leases)
        good = any(lease.alive for lease in leases)
        gone = "its process is gone" if left > 0 else "expired"
        until = f"for {duration_text(left * 1_000_000_000)} more" if good else gone
        yield "lease", f"{owner}: {', '.join(one.node for one in nodes)}, {until}"


def _node_document(one: NodeSeen, runs: NodeRuns | None, service: str) -> dict[str, Json]:
    found, state = one.container(service), one.state
    return {
        "node": one.node,
        "rank": one.rank,
        "trouble": one.trouble,
        "served": None if runs is None or runs.served is None else runs.served.document(),
        "step": None if state is None else state.step,
        "container": None if found is None else _container_document(found),
        "guards": [
            {"phase": guard.phase, "alive": guard.alive, "says": guard.says, "unit": guard.unit} for guard in one.guards
        ],
        "lease": None
        if one.lease is None
        else {"owner": one.lease.owner, "alive": one.lease.alive, "expires_in_s": one.lease.expires_in_s},
    }


def _container_document(found: Container) -> Mapping[str, Json]:
    return {
        "id": found.id,
        "state": found.state,
        "launch_bundle": found.labels.get(LAUNCH_BUNDLE_LABEL),
        "image_ids": list(found.image_ids),
        "exit_code": found.exit_code,
        "oom_killed": found.oom_killed,
        "started": found.started,
        "finished": found.finished,
        "restarts": found.restarts,
    }


def _short(digest: str) -> str:
    return digest.rpartition(":")[2][:12]
