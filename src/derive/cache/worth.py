# SPDX-License-Identifier: Apache-2.0
"""Whether taking an output from a slow cache is worth it: compared with building it, and all that is below it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from derive.build.plan import Action, Plan, Step
from derive.canonical import Digest
from derive.derivations.model import Derivation, Output, closure

PATIENT_NS = 30_000_000_000
"""A transfer that is expected to take no longer is always made."""
FACTOR = 3
"""How many times as long as building a transfer may take: what is built must be fetched, and keeps others from work."""
_FETCH_RATE = 20_000_000  # bytes a second, where nothing is known of mirrors


def too_slow(
    plan: Plan,
    rates: Callable[[Step], float | None],
    durations: Mapping[str, int],
    present: Callable[[Derivation], bool],
) -> frozenset[Digest]:
    """Return the resolved ids of steps that are built more quickly than taken.

    ``rates`` say in bytes per second how quickly the cache of a step served so far, None where nobody knows;
    ``durations`` what steps of a name took somewhere, in nanoseconds; ``present`` whether a step's outputs are here.
    """
    found = set()
    for step in plan.of(Action.SUBSTITUTE):
        rate = rates(step)
        if rate is None or step.vouch is None or step.vouch.size_bytes * 1e9 / rate <= PATIENT_NS:
            continue
        limit = limit_ns(step.derivation, durations, present)
        if limit is not None and step.vouch.size_bytes * 1e9 / rate > limit:
            found.add(step.vouch.resolved)
    return frozenset(found)


def too_large(plan: Plan, free: int) -> frozenset[Digest]:
    """Return the resolved ids of steps whose outputs, as large as signers say, do not fit: the largest, and few."""
    excess = plan.fetch_bytes + plan.substitute_bytes - free
    found = set()
    for step in sorted(plan.of(Action.SUBSTITUTE), key=lambda one: one.substitute_bytes, reverse=True):
        if excess <= 0 or not step.substitute_bytes or step.vouch is None:
            break
        found.add(step.vouch.resolved)
        excess -= step.substitute_bytes
    return frozenset(found)


def limit_ns(target: Derivation, durations: Mapping[str, int], present: Callable[[Derivation], bool]) -> int | None:
    """Return how long taking a step's outputs may last; None where nobody knows what building it would."""
    if durations.get(target.name) is None and target.fixed is None:
        return None
    total = 0
    for one in _below(target, present):
        size = one.arguments.get("size")
        if one.fixed is None:
            total += durations.get(one.name, 0)
        elif isinstance(size, int):
            total += size * 1_000_000_000 // _FETCH_RATE
    return max(PATIENT_NS, FACTOR * total)


def _below(target: Derivation, present: Callable[[Derivation], bool]) -> list[Derivation]:
    """Return what would run if a step were built and nothing came from elsewhere, as far as is known."""
    wanted = {target.id}
    found = []
    for one in reversed(closure(target)):
        if one.id in wanted and (one.id == target.id or not present(one)):
            found.append(one)
            wanted |= {reference.derivation.id for reference in one.inputs.values()}
    return found


def all_present(outputs: Mapping[str, Output] | None, is_there: Callable[[Output], bool]) -> bool:
    """Say whether outputs are known, and all of them there."""
    return outputs is not None and all(map(is_there, outputs.values()))
