# SPDX-License-Identifier: Apache-2.0
"""What the executor of plans asks of whoever places steps: which of those that are ready begin now, and where.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from derive.errors import DeriveError

if TYPE_CHECKING:
    import threading

    from derive.build.context import StepExecutor
    from derive.build.plan import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a step runs. ``executor`` is None for this machine's own sandbox; ``cancel`` stops this step alone.

    ``jobs`` is how many things the step may do at once there; None where it is as many as everywhere.
    """

    name: str
    executor: StepExecutor | None
    jobs: int | None
    cancel: threading.Event

    @property
    def elsewhere(self) -> str | None:
        """The executor's name; None for this machine."""
        return None if self.executor is None else self.name


class StepLost(Exception):
    """A step did not end because of where it ran, and is to run again."""


class Placing(Protocol):
    """Places steps. Everything but :meth:`is_lost` and :meth:`stop` is called by one thread."""

    @property
    def threads(self) -> int:
        """How many steps can run at once, everywhere together."""

    @property
    def poll_s(self) -> float | None:
        """How long to wait at most before it is asked again; None where nothing but the end of a step changes that."""

    @property
    def is_waiting(self) -> bool:
        """Whether steps were offered that have not begun."""

    def offer(self, steps: Iterable[Step]) -> None:
        """Give it steps that wait for nothing more."""

    def take(self) -> list[tuple[Step, Place]]:
        """Return the steps that begin now.

        Raises:
            Unavailable: when nothing runs, and nobody is left who could run what waits.
        """

    def ended(self, step: Step, place: Place) -> None:
        """Say that a step ended."""

    def lost(self, step: Step, place: Place) -> None:
        """Say that a step was lost: it waits again."""

    def is_lost(self, step: Step, place: Place, error: DeriveError) -> bool:
        """Say whether an error is where the step ran, and not the step itself, and the step is to run again."""

    def stop(self) -> None:
        """Stop every step that runs."""

    def close(self) -> None:
        """Give back all that is held."""


class AtOnce:
    """Places every step on this machine as soon as it is offered; the pool's threads are its slots."""

    poll_s = None
    is_waiting = False

    def __init__(self, jobs: int, cancel: threading.Event) -> None:
        self.threads = jobs
        self._place = Place(name="here", executor=None, jobs=None, cancel=cancel)
        self._offered: list[Step] = []

    def offer(self, steps: Iterable[Step]) -> None:
        """Take steps that wait for nothing more."""
        self._offered += steps

    def take(self) -> list[tuple[Step, Place]]:
        """Return all of them."""
        found = [(step, self._place) for step in self._offered]
        self._offered.clear()
        return found

    def ended(self, step: Step, place: Place) -> None:
        """Keep no account."""

    def lost(self, step: Step, place: Place) -> None:
        """Lose nothing."""

    def is_lost(self, step: Step, place: Place, error: DeriveError) -> bool:
        """Say that whatever fails here fails."""
        return False

    def stop(self) -> None:
        """Leave it to the event that all steps share."""

    def close(self) -> None:
        """Hold nothing."""
