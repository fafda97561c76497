# SPDX-License-Identifier: Apache-2.0
"""What a site is in, as values: what each node runs, and what all that amounts to.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from derive.canonical import Digest, Json
from derive.deploy.model import Served

UP = frozenset({"running", "paused", "restarting"})
"""States of a container that has processes."""
UNASKED = "unknown"
"""What a node's container is where the node cannot be asked."""
NONE = "none"
"""What a node's container is where it has none of the service's name."""


class Kind(Enum):
    """What a site is in."""

    NOTHING = "nothing"
    SERVING = "serving"
    STOPPED = "stopped"
    DEPLOYING = "deploying"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    MIXED = "mixed"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSeen:
    """Who has the lease of a node: owner as text, the nonce, and whether it is still good by the node's own clock.

    One whose owner is known to be gone is not ``alive``, whatever time it has left; ``is_gone`` says that it is known.
    """

    owner: str
    nonce: str
    alive: bool
    expires_in_s: int
    is_gone: bool = False


def told_of_each_other(leases: Mapping[str, LeaseSeen | None]) -> dict[str, LeaseSeen | None]:
    """Return leases by node, none of them alive whose owner is gone by what another node says.

    A deploy has one nonce on all nodes: that it ended with the head's last boot, the head alone can tell.
    """
    gone = {one.nonce for one in leases.values() if one is not None and one.is_gone}
    return {
        name: one if one is None or one.nonce not in gone else replace(one, alive=False, is_gone=True)
        for name, one in leases.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRuns:
    """What one node runs.

    ``launch`` is the launch bundle of its container, None for a container that no deploy started, or none that runs;
    ``served`` whose that is, None where the node does not remember it. ``state`` is the container's (``running``,
    ``exited``), ``none`` or ``unknown``; ``step`` that of the node's own state, None where it has none.
    """

    node: str
    launch: Digest | None
    served: Served | None
    state: str
    step: str | None

    @property
    def is_up(self) -> bool:
        """Say whether a container of the service's name runs."""
        return self.state in UP

    def words(self, *, many: bool = False) -> str:
        """Say in a few words what it runs; ``many``: it, and others like it."""
        runs = "run" if many else "runs"
        if self.state == UNASKED:
            return "cannot be asked"
        if not self.is_up:
            return f"{runs} nothing"
        if self.launch is None:
            return f"{runs} a container that no deploy started"
        return f"{runs} {self.launch.short}" if self.served is None else f"{runs} {self.served.release}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a site is in. ``headline`` and ``next`` are for people, ``nodes`` in order of rank.

    ``served`` is what serves on all nodes, ``wanted`` what a deploy was to bring that is not over or did not end well,
    ``former`` what can be gone back to, ``step`` how far that deploy came; None for each that there is none of.
    """

    kind: Kind
    headline: str
    next: str
    nodes: tuple[NodeRuns, ...]
    served: Served | None = None
    wanted: Served | None = None
    former: Served | None = None
    step: str | None = None

    def document(self) -> dict[str, Json]:
        """Return it as part of a record."""
        return {
            "kind": self.kind.value,
            "headline": self.headline,
            "next": self.next,
            "served": _document(self.served),
            "wanted": _document(self.wanted),
            "former": _document(self.former),
            "step": self.step,
            "nodes": [
                {
                    "node": one.node,
                    "launch_bundle": None if one.launch is None else str(one.launch),
                    "release": None if one.served is None else one.served.release,
                    "container": one.state,
                    "step": one.step,
                }
                for one in self.nodes
            ],
        }


def _document(served: Served | None) -> Json:
    return None if served is None else served.document()
