# SPDX-License-Identifier: Apache-2.0
"""Deploys that were: what each brought, how long each step took, and how it ended; and what the next one will take.

Core: no IO. Standard library only. The records are kept by :mod:`derive.deploy.deploys`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, TypeAlias, cast, get_args

from derive.canonical import Digest, Json
from derive.deploy.model import Served, Step
from derive.deploy.node_state import ODD, parse_served
from derive.images.documents import DocumentError

KIND = "deploy"
FOLDER = "deploys"

Outcome: TypeAlias = Literal["done", "rolled-back", "failed", "interrupted"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_RECENT = 5
"""How many of the newest deploys say how long a step takes."""
_OF_ANY_SHAPE = frozenset({Step.LEASE, Step.FACTS, Step.PREFLIGHT, Step.STAGE, Step.ACTIVATE, Step.RECORD})
"""Steps that take as long whatever is deployed."""
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTook:
    """How long a step took."""

    step: Step
    duration_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """A deploy that is over.

    ``nodes`` are the container ids by node, None where none was started. ``site`` is the site's digest. ``former`` is
    what ran before; ``why`` what went wrong, None where nothing did. ``moved_bytes`` are those of images, None where
    nobody counted. ``at_s`` is when it was over, in seconds since 1970.
    """

    served: Served
    service: str
    site: Digest
    nodes: Mapping[str, str | None]
    steps: tuple[StepTook, ...]
    outcome: Outcome
    why: str | None
    former: Served | None
    by: str
    at_s: int
    moved_bytes: int | None = None

    def body(self) -> dict[str, Json]:
        """Return it as a record's body; every node has the same launch bundle, that of ``served``."""
        return {
            "served": self.served.document(),
            "service": self.service,
            "site": str(self.site),
            "nodes": {
                node: {"launch_bundle": str(self.served.launch_bundle), "container": container}
                for node, container in self.nodes.items()
            },
            "steps": [{"step": one.step.value, "duration_ns": one.duration_ns} for one in self.steps],
            "outcome": self.outcome,
            "why": self.why,
            "former": None if self.former is None else self.former.document(),
            "by": self.by,
            "at_s": self.at_s,
            "moved_bytes": self.moved_bytes,
        }

    @property
    def duration_ns(self) -> int:
        """How long it took in all."""
        return sum(one.duration_ns for one in self.steps)

    def took(self, step: Step) -> int | None:
        """Return how long a step took, in nanoseconds; None where it was not come to."""
        found = [one.duration_ns for one in self.steps if one.step is step]
        return sum(found) if found else None


def deployed(body: Mapping[str, Json]) -> Deployed:
    """Read a record's body.

    Raises:
        DocumentError: when it is none of a deploy.
    """
    found = cast("Mapping[str, Any]", body)
    try:
        outcome = found["outcome"]
        if outcome not in OUTCOMES:
            raise DocumentError(f"outcome: not one of {', '.join(OUTCOMES)}")
        former, moved = found["former"], found["moved_bytes"]
        return Deployed(
            served=parse_served(found["served"]),
            service=str(found["service"]),
            site=Digest.parse(found["site"]),
            nodes={
                node: None if one["container"] is None else str(one["container"])
                for node, one in found["nodes"].items()
            },
            steps=tuple(
                StepTook(step=Step(one["step"]), duration_ns=int(one["duration_ns"])) for one in found["steps"]
            ),
            outcome=outcome,
            why=None if found["why"] is None else str(found["why"]),
            former=None if former is None else parse_served(former),
            by=str(found["by"]),
            at_s=int(found["at_s"]),
            moved_bytes=None if moved is None else int(moved),
        )
    except ODD as error:
        raise DocumentError(f"not a deploy: {f'no {error}' if isinstance(error, KeyError) else error}") from error


def expected_seconds(
    history: Sequence[Deployed], served: Served, *, move_bytes: int | None = None, nodes: int | None = None
) -> dict[Step, int]:
    """Return what each step is expected to take, in whole seconds; a step of which nothing is known is not there.

    It is the median of the newest five deploys of the same shape that went well; what does not depend on the shape is
    taken from any. To move images takes as long as their bytes at the pace of earlier ones, where bytes are known.
    """
    well = [one for one in history if one.outcome == "done" and nodes in (None, len(one.nodes))]
    alike = [one for one in well if (one.served.recipe, one.served.shape) == (served.recipe, served.shape)]
    found: dict[Step, int] = {}
    for step in Step:
        if step is Step.DISTRIBUTE and move_bytes is not None:
            duration = _moving(well, move_bytes)
        else:
            duration = _usual(alike, step)
            if duration is None and step in _OF_ANY_SHAPE:
                duration = _usual(well, step)
        if duration is not None:
            found[step] = -(-duration // _NS)
    return found


def last_healthy(history: Sequence[Deployed], current: Served | None, *, service: str) -> Served | None:
    """Return the newest release of a service that was deployed well and is not the current one."""
    now = None if current is None else current.launch_bundle
    for one in reversed(history):
        if one.service == service and one.outcome == "done" and one.served.launch_bundle != now:
            return one.served
    return None


def _usual(of: Sequence[Deployed], step: Step) -> int | None:
    found = [took for one in of if (took := one.took(step)) is not None][-_RECENT:]
    return int(median(found)) if found else None


def _moving(of: Sequence[Deployed], move_bytes: int) -> int | None:
    """Return how long so many bytes take; nothing at all takes as long as it did before, where it was so."""
    took = [(one.moved_bytes, one.took(Step.DISTRIBUTE)) for one in of]
    if not move_bytes:
        idle = [duration for moved, duration in took if moved == 0 and duration is not None][-_RECENT:]
        return int(median(idle)) if idle else None
    paces = [duration * _NS // moved for moved, duration in took if moved and duration is not None][-_RECENT:]
    return int(median(paces)) * move_bytes // _NS if paces else None
