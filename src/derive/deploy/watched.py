# SPDX-License-Identifier: Apache-2.0
"""Whether a service that is watched goes on: all is well, somebody is at work on it, or a rank has died.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from derive.deploy.incident import Budget, Death, deaths
from derive.deploy.model import Served
from derive.deploy.recovery_known import SERVING
from derive.deploy.status import NodeSeen
from derive.words import count_text

RESTART: Final = "restart"
SPENT: Final = "budget-spent"
CANNOT: Final = "cannot-restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Well:
    """Every rank that answers lives; ``silent`` are nodes that do not answer, and not for long yet."""

    served: Served
    silent: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Say it."""
        silent = f"; {', '.join(self.silent)}: no answer" if self.silent else ""
        return f"{self.served.release} serves{silent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """There is nothing to watch now, in words why: somebody is at work, or nothing is to run."""

    why: str

    @property
    def text(self) -> str:
        """Say it."""
        return f"not watched: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """Ranks have died, the first one first."""

    served: Served
    deaths: tuple[Death, ...]

    @property
    def text(self) -> str:
        """Say it."""
        return f"{', '.join(one.node for one in self.deaths)} died"


Verdict: TypeAlias = "Well | Paused | Died"


def judge(service: str, seen: Sequence[NodeSeen], *, now_ns: int, silent_ns: int) -> Verdict:
    """Say how a service is; a node that has not answered for ``silent_ns`` counts as dead.

    Deaths count only while every node that answers remembers that the same release serves: a deploy, a stop or what
    was left of one is somebody else's affair.
    """
    holder = next((one.lease for one in seen if one.lease is not None and one.lease.alive), None)
    if holder is not None:
        return Paused(why=f"{holder.owner} is at work")
    answering = [one for one in seen if one.trouble is None]
    if not answering:
        return Paused(why="no node answers")
    states = [one.state for one in answering]
    served = {state.current.launch_bundle: state.current for state in states if state is not None and state.current}
    if len(served) != 1 or any(state is None or state.step != SERVING or state.current is None for state in states):
        return Paused(why=f"{service} is not to serve, or not everywhere the same: derive status")
    current = next(iter(served.values()))
    silent = [one for one in seen if one.trouble is not None]
    lost = [one for one in silent if one.answered_ns and now_ns - one.answered_ns > silent_ns]
    found = deaths([one.as_rank(service) for one in seen if one in answering or one in lost])
    if found:
        return Died(served=current, deaths=found)
    return Well(served=current, silent=tuple(one.node for one in silent))


def decide(found: Sequence[Death], budget: Budget, spent: int, findings: Sequence[str] = ()) -> tuple[str, str]:
    """Return what is done about deaths, and why in words.

    Nothing is started while a node does not answer, or its machine is not as a launch needs it (``findings``).
    """
    lost = [one.node for one in found if one.kind == "lost"]
    if lost:
        return CANNOT, f"{', '.join(lost)} {'does' if len(lost) == 1 else 'do'} not answer"
    if spent >= budget.restarts:
        spent_all = count_text(budget.restarts, "restart is", "restarts are")
        return SPENT, f"{spent_all} spent, of {budget.within_s} s" if budget.restarts else "no restart was allowed"
    if findings:
        return CANNOT, "; ".join(findings)
    return RESTART, f"restart {spent + 1} of {budget.restarts} in {budget.within_s} s"


def died_lines(found: Sequence[Death], nodes: Mapping[str, int]) -> tuple[str, ...]:
    """Say who died first, and what became of the others, in aligned lines; ``nodes`` are ranks by node."""
    width = max(map(len, nodes), default=0)
    first = found[0].at_ns
    lines = []
    for number, one in enumerate(found):
        after = "" if one.at_ns is None or first is None or not number else f", {(one.at_ns - first) / 1e9:.1f} s later"
        lines.append(f"{one.node.ljust(width)}  {'first' if not number else 'then'}{after}: {one.why}")
    return tuple(lines)
