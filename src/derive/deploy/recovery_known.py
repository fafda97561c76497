# SPDX-License-Identifier: Apache-2.0
"""What nodes remember and run, with what follows from it: how far a deploy came, what to go back to, what runs where.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import Digest
from derive.deploy.again import PLAIN, Again
from derive.deploy.model import Container, NodeState, Served, Step
from derive.deploy.situation import NONE, UNASKED, UP, Kind, NodeRuns, Situation
from derive.render.plan import LAUNCH_BUNDLE_LABEL

SERVING = "serving"
STOPPED = "stopped"
FAILED = "failed"
SUPERVISED = "supervise-"
"""How the name of a deploy begins that started a service again after a rank had died."""
ENDS = frozenset({SERVING, STOPPED, FAILED})
"""What a state's step says when no deploy is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was seen, with what follows from it; ``again`` is what commands that are proposed repeat."""

    service: str
    nodes: tuple[NodeRuns, ...]
    states: Mapping[str, NodeState | None]
    again: Again = PLAIN

    @property
    def unasked(self) -> tuple[str, ...]:
        """The nodes that cannot be asked."""
        return tuple(one.node for one in self.nodes if one.state == UNASKED)

    @property
    def everywhere(self) -> Served | None:
        """What every node that answers runs and remembers; None where they do not run the same."""
        asked = [one for one in self.nodes if one.state != UNASKED]
        first = asked[0].served if asked else None
        same = first is not None and all(one.is_up and one.launch == first.launch_bundle for one in asked)
        return first if same else None

    @property
    def last(self) -> NodeState | None:
        """The state that was written last of those in which a deploy is under way, else of all."""
        found = [one for one in self.states.values() if one is not None]
        going = [one for one in found if one.step not in ENDS]
        return max(going or found, key=lambda one: (one.at_s, number(one.step)), default=None)

    @property
    def step(self) -> str | None:
        """How far the last deploy came on the node where it came furthest; None where none is under way."""
        last = self.last
        if last is None or last.step in ENDS:
            return None
        mine = [one.step for one in self.states.values() if one is not None and one.deploy == last.deploy]
        return max((one for one in mine if one not in ENDS), key=number)

    @property
    def wanted(self) -> Served | None:
        """What the last deploy was to bring."""
        return None if self.last is None else self.last.wanted

    @property
    def former(self) -> Served | None:
        """The newest that every node was well with, and that is neither what was to come nor what serves."""
        last = self.last
        every = [state.healthy for state in self.states.values() if state is not None]
        if last is None or not every:
            return None
        others = [{one.launch_bundle for one in healthy} for healthy in every]
        left_out = (last.wanted, last.current if last.step in (SERVING, STOPPED) else None)
        not_these = {one.launch_bundle for one in left_out if one is not None}
        for one in every[0]:
            if one.launch_bundle not in not_these and all(one.launch_bundle in known for known in others):
                return one
        return None

    def says(
        self,
        kind: Kind,
        headline: str,
        following: str,
        *,
        served: Served | None = None,
        wanted: Served | None = None,
        step: str | None = None,
    ) -> Situation:
        """Return a situation of these nodes, with what can be gone back to."""
        return Situation(
            kind=kind,
            headline=headline,
            next=following,
            nodes=self.nodes,
            served=served,
            wanted=wanted,
            former=self.former,
            step=step,
        )

    def told(self) -> str:
        """Say what the nodes run: those that run the same in one part."""
        by_words: dict[str, list[NodeRuns]] = {}
        for one in self.nodes:
            by_words.setdefault(one.words(), []).append(one)
        alike = by_words.values()
        return "; ".join(f"{names(one.node for one in of)} {of[0].words(many=len(of) > 1)}" for of in alike)

    def deploy(self, served: Served | None) -> str:
        """Return the command that brings a release again."""
        return self.again.deploy(served, ("--replace",) if any(one.is_up for one in self.nodes) else ())

    def stop(self, *, container: bool = False) -> str:
        """Return the command that stops the service, or a container of its name that no deploy started."""
        return self.again.command(f"derive stop {'--container ' if container else ''}{self.service} --apply")


def remembered(state: NodeState | None) -> tuple[Served, ...]:
    """Return every launch that a node remembers: what it stands for, what was to come, what it was well with."""
    if state is None:
        return ()
    return tuple(one for one in (state.current, state.wanted, *state.healthy) if one is not None)


def node_runs(node: str, state: NodeState | None, seen: Sequence[Container] | None, service: str) -> NodeRuns:
    """Return what a node runs; ``seen`` are its containers, None where it cannot be asked."""
    step = None if state is None else state.step
    if seen is None:
        return NodeRuns(node=node, launch=None, served=None, state=UNASKED, step=step)
    found = next((one for one in seen if one.name == service), None)
    if found is None:
        return NodeRuns(node=node, launch=None, served=None, state=NONE, step=step)
    launch = _digest(found.labels.get(LAUNCH_BUNDLE_LABEL)) if found.state in UP else None
    served = next((one for one in remembered(state) if one.launch_bundle == launch), None)
    return NodeRuns(node=node, launch=launch, served=served, state=found.state, step=step)


def number(step: str) -> int:
    """Where a step stands in the order; one that is not known stands last."""
    return next((one.number for one in Step if one.value == step), len(Step) + 1)


def names(nodes: Iterable[str]) -> str:
    """Write names of nodes in a sentence."""
    return ", ".join(nodes)


def _digest(text: str | None) -> Digest | None:
    try:
        return None if text is None else Digest.parse(text)
    except ValueError:
        return None
