# SPDX-License-Identifier: Apache-2.0
"""Which steps of a plan wait for which others.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Sequence

from derive.build.plan import Step
from derive.canonical import Digest


class Order:
    """Which steps wait for which others of a plan."""

    def __init__(self, pending: Sequence[Step]) -> None:
        self._waiting = {step.derivation.id: step for step in pending}
        self._blockers = {
            key: {r.derivation.id for r in step.derivation.inputs.values()} & self._waiting.keys()
            for key, step in self._waiting.items()
        }
        self._dependents: dict[Digest, list[Digest]] = {}
        for key, needs in self._blockers.items():
            for need in needs:
                self._dependents.setdefault(need, []).append(key)

    def ready(self) -> list[Step]:
        """Return the steps that wait for nothing."""
        return [step for key, step in self._waiting.items() if not self._blockers[key]]

    def done(self, step: Step) -> list[Step]:
        """Return the steps that waited for this one alone."""
        freed = []
        for dependent in self._dependents.get(step.derivation.id, ()):
            self._blockers[dependent].discard(step.derivation.id)
            if not self._blockers[dependent]:
                freed.append(self._waiting[dependent])
        return freed
