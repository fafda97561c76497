# SPDX-License-Identifier: Apache-2.0
"""Judges whether a host that serves models may build, and with how many jobs, from what it says of itself.

Core: no IO.

Building takes memory that a model server, which has taken nearly all there is, would die of: so nothing begins beside
one, everything stops when memory falls below a floor, and only one build runs on such a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from derive.canonical import Json
from derive.errors import Corrupt, DeriveError, expected_got
from derive.schedule.config import GIB, Guard
from derive.words import binary_size, count_text

TAG = "idle-facts/1"
SERVICE_LABEL = "io.derive.launch-bundle"
"""A container that was deployed by derive serves, whatever it is called."""
MOST_JOBS = 10
_LAST, _SAID = "last ", "said "
"""How the lines of an error begin that tell what somebody else said of it."""
_CPUS_A_JOB = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A container that runs, and whether derive deployed it."""

    name: str
    deployed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleFacts:
    """What a host said: its memory, its processors, what runs in containers, and who else builds there.

    ``containers`` is None where the engine did not say, with the reason in ``unread``; ``holder`` says who holds the
    lock of builds, None where nobody does.
    """

    available_bytes: int
    total_bytes: int
    cpus: int
    containers: tuple[Running, ...] | None
    unread: str = ""
    holder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a host may build: with how many jobs, or for what reasons it may not (none: it may)."""

    jobs: int
    reasons: tuple[str, ...] = ()

    @property
    def may(self) -> bool:
        """Whether it may."""
        return not self.reasons

    def document(self) -> dict[str, Json]:
        """Return it as part of a record's body."""
        return {"idle": self.may, "jobs": self.jobs, "reasons": list(self.reasons)}


def read_idle_facts(host: str, said: Any) -> IdleFacts:
    """Read what the program on a host said.

    Raises:
        Corrupt: when it is no such document.
    """
    try:
        tag = said["derive"]
        listed = said["containers"]
        found = IdleFacts(
            available_bytes=int(said["available_bytes"]),
            total_bytes=int(said["total_bytes"]),
            cpus=int(said["cpus"]),
            containers=None if listed is None else tuple(map(_running, listed)),
            unread=str(said["unread"]),
            holder=None if said["holder"] is None else str(said["holder"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        got = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise Corrupt("not what a host says of being idle", where=host, detail=expected_got(TAG, got)) from error
    if tag != TAG:
        raise Corrupt("not what a host says of being idle", where=host, detail=expected_got(TAG, tag))
    return found


def _running(one: Mapping[str, Any]) -> Running:
    return Running(name=str(one["name"]), deployed=SERVICE_LABEL in one["labels"])


def may_build(facts: IdleFacts, guard: Guard) -> Verdict:
    """Judge whether a build may begin."""
    reasons = [*_serving(facts, guard)]
    if facts.holder is not None:
        reasons.append(f"another build runs there: {facts.holder}")
    if facts.available_bytes < guard.memory_needed:
        reasons.append(f"{_gib(facts.available_bytes)} available, and a build begins with {_gib(guard.memory_needed)}")
    jobs = jobs_for(facts, guard)
    if jobs < 1 and not reasons:
        reasons += _too_small(facts, guard)
    return Verdict(jobs=0 if reasons else jobs, reasons=tuple(reasons))


def _too_small(facts: IdleFacts, guard: Guard) -> list[str]:
    """Return what one job needs that a host lacks, and which keys of its guard say so."""
    processors = guard.cores_kept + _CPUS_A_JOB
    memory = guard.memory_floor + guard.memory_a_job
    found = []
    if facts.cpus < processors:
        found.append(
            f"too small: {count_text(facts.cpus, 'processor')}, and one job needs {processors}:"
            f" {_CPUS_A_JOB} beside cores-kept = {guard.cores_kept}"
        )
    if facts.available_bytes < memory:
        found.append(
            f"too small: {_gib(facts.available_bytes)} available, and one job needs {_gib(memory)}:"
            f" memory-a-job = {binary_size(guard.memory_a_job)} above memory-floor = {binary_size(guard.memory_floor)}"
        )
    return found


def jobs_for(facts: IdleFacts, guard: Guard) -> int:
    """Return how many jobs fit: two processors each beside those kept, memory for each above the floor, ten at most."""
    processors = (facts.cpus - guard.cores_kept) // _CPUS_A_JOB
    memory = (facts.available_bytes - guard.memory_floor) // guard.memory_a_job
    return max(0, min(MOST_JOBS, processors, memory))


def must_stop(facts: IdleFacts, guard: Guard) -> tuple[str, ...]:
    """Return the reasons why a build that runs is to be stopped now; none where it may go on."""
    reasons = [*_serving(facts, guard)]
    if facts.available_bytes < guard.memory_floor:
        reasons.append(f"{_gib(facts.available_bytes)} available, below the floor of {_gib(guard.memory_floor)}")
    return tuple(reasons)


def serves(container: Running, guard: Guard) -> bool:
    """Say whether a container that runs is one that serves."""
    return container.deployed or any(fnmatchcase(container.name, pattern) for pattern in guard.idle)


def reason_of(error: DeriveError) -> str:
    """Say in one line why a host could not be asked, or refuses: its details are no column there."""
    problem = error.problems()[0]
    said = next((line for line in problem.detail if line.startswith(_SAID)), None)
    shown = problem.detail[:1] if said is None else (said,)
    return "; ".join((problem.message, *(" ".join(line.split()) for line in shown)))


def said_last(error: DeriveError) -> str:
    """Say in one line why a step was lost: what its worker said last, where the error tells that."""
    problem = error.problems()[0]
    said = next((line for line in problem.detail if line.startswith(_LAST)), "")
    return " ".join(said.removeprefix(_LAST).split()) or problem.message


def _serving(facts: IdleFacts, guard: Guard) -> list[str]:
    if facts.containers is None:
        return [f"its container engine does not say what runs: {facts.unread}"]
    names = sorted(one.name for one in facts.containers if serves(one, guard))
    return [f"it serves: {', '.join(names)} {'runs' if len(names) == 1 else 'run'}"] if names else []


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
