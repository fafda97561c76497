# SPDX-License-Identifier: Apache-2.0
"""How executors stand now: whether their builder answers, and whether a host that serves models may build.

Edge: clients of BuildKit, SSH, threads. Changes nothing, and starts no builder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from derive.canonical import Json
from derive.errors import DeriveError
from derive.schedule.config import ExecutorEntry
from derive.schedule.idle import IdleFacts, Verdict, may_build, reason_of
from derive.schedule.model import USUAL_SPEED
from derive.schedule.speeds import Speed

_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One executor. ``problems`` are why it takes no step now; none: it does.

    ``versions`` are those of BuildKit on the nodes that answer; ``facts`` and ``verdict`` are those of a guarded host.
    """

    entry: ExecutorEntry
    speed: Speed | None
    versions: tuple[str, ...] = ()
    facts: IdleFacts | None = None
    verdict: Verdict | None = None
    problems: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether it takes steps now."""
        return not self.problems

    @property
    def speed_permille(self) -> int:
        """Thousandths of this machine's speed: as measured, else as configured, else the same."""
        return self.speed.speed if self.speed is not None else self.entry.speed or USUAL_SPEED

    def document(self) -> dict[str, Json]:
        """Return it as part of a record's body."""
        entry, facts = self.entry, self.facts
        return {
            "name": entry.name,
            "builder": entry.builder,
            "platforms": list(entry.platforms),
            "jobs": entry.jobs,
            "ready": self.is_ready,
            "problems": list(self.problems),
            "versions": list(self.versions),
            "speed_thousandths": self.speed_permille,
            "speed_steps": self.speed.steps if self.speed is not None else 0,
            "guard": None if self.verdict is None else self.verdict.document(),
            "available_bytes": None if facts is None else facts.available_bytes,
        }


def see(entries: Sequence[ExecutorEntry], speeds: Mapping[str, Speed]) -> tuple[Seen, ...]:
    """Ask all executors at once how they stand, and return the answers in their order."""
    if not entries:
        return ()
    with ThreadPoolExecutor(min(len(entries), _AT_ONCE), thread_name_prefix="see") as pool:
        return tuple(pool.map(lambda entry: _seen(entry, speeds.get(entry.name)), entries))


def _seen(entry: ExecutorEntry, speed: Speed | None) -> Seen:
    problems: list[str] = []
    versions: tuple[str, ...] = ()
    facts: IdleFacts | None = None
    verdict: Verdict | None = None
    if entry.builder is not None:
        try:
            versions = _versions(entry, entry.builder)
        except DeriveError as error:
            problems.append(error.problems()[0].message)
    if entry.guard is not None:
        from derive.schedule.idle_watch import look

        try:
            facts = look(entry.name, entry.guard)
            verdict = may_build(facts, entry.guard)
            problems += verdict.reasons
        except DeriveError as error:
            problems.append(reason_of(error))
    return Seen(entry=entry, speed=speed, versions=versions, facts=facts, verdict=verdict, problems=tuple(problems))


def _versions(entry: ExecutorEntry, builder: str) -> tuple[str, ...]:
    from derive.buildkit.builders import usable_builder

    found = [usable_builder(builder, platform) for platform in entry.platforms]
    return tuple(sorted({node.version for one in found for node in one.nodes if node.is_running and node.version}))
