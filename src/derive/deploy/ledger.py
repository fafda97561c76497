# SPDX-License-Identifier: Apache-2.0
"""The incidents of a service while it is watched: those on record, and those of this process that no record took.

Edge: the operator's folder.

A record that cannot be read or written is told, and stands in the way of no restart: what was decided here is counted
all the same, so that a crash budget holds without any record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from derive.errors import DeriveError

if TYPE_CHECKING:
    from derive.canonical import Json
    from derive.deploy.kept import Kept


@dataclass(slots=True)
class Ledger:
    """What is known of a service's incidents; ``say`` is told what cannot be read or written."""

    kept: Kept
    service: str
    say: Callable[[str], None]
    _before: tuple[Mapping[str, Json], ...] | None = None
    _own: list[Mapping[str, Json]] = field(default_factory=list)

    def read(self) -> None:
        """Read what is on record, once, before anything has died."""
        try:
            self._before = tuple(one.body for one in self.kept.incidents())
        except DeriveError as error:
            self._before = ()
            self._tell("earlier incidents cannot be read, and do not count", error)

    def bodies(self) -> Iterator[Mapping[str, Json]]:
        """Yield the bodies of all incidents that are known, those of this process last."""
        if self._before is None:
            self.read()
        yield from self._before or ()
        yield from self._own

    def add(self, body: Mapping[str, Json]) -> str:
        """Write an incident down, and return in words what became of it."""
        if self._before is None:
            self.read()
        self._own.append(body)
        try:
            return f"written down: {self.kept.add_incident(self.service, body)}"
        except DeriveError as error:
            return f"not written down: {_words(error)}"

    def _tell(self, what: str, error: DeriveError) -> None:
        hint = error.problems()[0].hint
        self.say(f"{self.service}: {what}: {_words(error)}" + (f"; {hint}" if hint else ""))


def _words(error: DeriveError) -> str:
    return "; ".join(f"{one.where}: {one.message}" if one.where else one.message for one in error.problems())
