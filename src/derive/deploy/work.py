# SPDX-License-Identifier: Apache-2.0
"""What is at hand while a deploy is under way: what is to run, the nodes, their leases, and who is told.

Edge: the nodes and their engines.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from derive.deploy.effects import activate, deactivate, write_state
from derive.deploy.model import NodeState
from derive.deploy.reach import answers_of
from derive.deploy.recovery_known import SERVING, STOPPED
from derive.deploy.told import ALL
from derive.errors import DeriveError

if TYPE_CHECKING:
    from pathlib import Path

    from derive.canonical import Digest
    from derive.deploy.former import Former
    from derive.deploy.guard import GuardFile
    from derive.deploy.held import Held
    from derive.deploy.kept import Kept
    from derive.deploy.model import Before, Served, Target
    from derive.deploy.reach import Reach
    from derive.deploy.remote import Node
    from derive.deploy.told import Told
    from derive.releases.facts import ImageFacts

HEALTHY = 4
"""Releases that a node remembers to have run well, the newest included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a deploy is done with: the store, the operator's folder, the clocks, and who does it.

    ``clock`` returns nanoseconds that never go back, ``now_s`` seconds since 1970. ``aim`` renders what ran before once
    more; it returns None where that is not to be had, and is itself None where nobody asks. ``image_facts`` is
    what the release says of its images.
    """

    store: Path
    kept: Kept
    clock: Callable[[], int]
    now_s: Callable[[], int]
    by: str
    aim: Callable[[Served], Target | None] | None = None
    image_facts: Mapping[Digest, ImageFacts] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Work:
    """A deploy under way. ``deploy`` is its name, ``former`` what to go back to, once that is known.

    ``guards`` are the programs out of images, by the image's digest. ``armed_ns`` is when each node's guard was
    armed, by the clock of ``means``; ``with_systemd`` are the nodes that have it. ``distribute`` brings
    a target's image to all nodes, and returns how many bytes moved, None where nobody counted.
    """

    deploy: str
    target: Target
    reach: Reach
    held: Held
    told: Told
    means: Means
    former: Former | None = None
    guards: dict[Digest, GuardFile] = field(default_factory=dict)
    armed_ns: dict[str, int] = field(default_factory=dict)
    with_systemd: frozenset[str] = frozenset()
    distribute: Callable[[Work, Target], Awaitable[int | None]] | None = None

    @property
    def folder(self) -> str:
        """The site's folder on each node."""
        return self.reach.site.folder

    @property
    def service(self) -> str:
        """The service's name."""
        return self.target.service

    def rank_of(self, name: str) -> int:
        """Return a node's rank."""
        return self.reach.names.index(name)

    async def on_all(
        self,
        step: str,
        function: Callable[[Node], Awaitable[str]],
        only: Collection[str] | None = None,
        *,
        tell_begin: bool = False,
    ) -> None:
        """Do something on several nodes at once, and tell of each; raises what failed on any of them, all together."""
        answers_of(await self.tried(step, function, only, tell_begin=tell_begin))

    async def tried(
        self,
        step: str,
        function: Callable[[Node], Awaitable[str]],
        only: Collection[str] | None = None,
        *,
        tell_begin: bool = False,
    ) -> dict[str, str | DeriveError]:
        """Do something on several nodes at once, and tell of each; what failed is among the answers."""

        async def one(node: Node) -> str:
            if tell_begin:
                self.told.line(node.name, step, "begins")
            text = await function(node)
            self.told.line(node.name, step, f"done: {text}" if text else "done")
            return text

        answers = await self.reach.each(one, only)
        for name, answer in answers.items():
            if isinstance(answer, DeriveError):
                self.told.line(name, step, f"failed: {answer.message}")
        return answers

    def say(self, step: str, text: str) -> None:
        """Tell something of all nodes."""
        self.told.line(ALL, step, text)

    def state(
        self, step: str, *, wanted: Served | None, current: Served | None, healthy: tuple[Served, ...]
    ) -> NodeState:
        """Return what a node is to remember."""
        return NodeState(
            service=self.service,
            deploy=self.deploy,
            step=step,
            wanted=wanted,
            current=current,
            healthy=healthy,
            at_s=self.means.now_s(),
        )

    def healthy_of(self, name: str) -> tuple[Served, ...]:
        """Return what a node was healthy with before this deploy, newest first."""
        state = None if self.former is None else self.former.states.get(name)
        return () if state is None else state.healthy

    def current_of(self, name: str) -> Served | None:
        """Return what a node's links and units stood for before this deploy."""
        state = None if self.former is None else self.former.states.get(name)
        return None if state is None else state.current

    def before_of(self, name: str) -> Before | None:
        """Return what a node was in before this deploy, or before one that was cut off; None where nobody looked."""
        return None if self.former is None else self.former.before(name)

    async def write(self, node: Node, state: NodeState) -> None:
        """Let a node remember a state, and nothing else."""
        await write_state(node, self.held.fence, self._with_before(node, state))

    def _with_before(self, node: Node, state: NodeState) -> NodeState:
        """Return a state with what was before it, for as long as that is to be gone back to."""
        return state if state.step in (SERVING, STOPPED) else replace(state, before=self.before_of(node.name))

    async def lead_to(self, node: Node, served: Served | None, state: NodeState) -> None:
        """Let the node's link lead to a launch, or to nothing, and let it remember that."""
        if served is None:
            await deactivate(node, self.held.fence, self._with_before(node, state))
        else:
            await activate(node, self.held.fence, served.launch_bundle, self._with_before(node, state))


def with_newest(served: Served, healthy: tuple[Served, ...]) -> tuple[Served, ...]:
    """Return what a node remembers once a launch is healthy: that first, then what was so before, each once."""
    others = [one for one in healthy if one.launch_bundle != served.launch_bundle]
    return (served, *others)[:HEALTHY]
