# SPDX-License-Identifier: Apache-2.0
"""What a run tells of itself while it runs.

Core: no IO.
"""

from __future__ import annotations

from typing import Protocol

from derive.build.plan import Plan
from derive.derivations.model import Derivation


class Progress(Protocol):
    """Is told what happens; shows it or not."""

    def begin(self, plan: Plan, expected_ns: int | None) -> None:
        """The plan starts; how long it may take is None where no past run tells."""

    def started(self, derivation: Derivation, where: str | None = None) -> None:
        """A step starts: at an executor elsewhere, or on this machine, which is no ``where``."""

    def finished(self, derivation: Derivation, outcome: str, duration_ns: int) -> None:
        """A step ended.

        ``fetched``, ``built``, ``substituted``, ``reused``, ``stopped``, ``failed``, or ``absent`` where a cache did
        not have it.
        """

    def note(self, message: str) -> None:
        """Something that a person should know, such as a mirror that does not answer; said once."""

    def checked(self, derivation: Derivation, differences: int) -> None:
        """A step was built again, and so many of its outputs came out otherwise."""

    def end(self) -> None:
        """The run is over, however it went."""

    def took(self, duration_ns: int, expected_ns: int | None) -> None:
        """All went well, in so much time."""


class Silent:
    """Shows nothing."""

    def begin(self, plan: Plan, expected_ns: int | None) -> None:
        """Show nothing."""

    def started(self, derivation: Derivation, where: str | None = None) -> None:
        """Show nothing."""

    def finished(self, derivation: Derivation, outcome: str, duration_ns: int) -> None:
        """Show nothing."""

    def note(self, message: str) -> None:
        """Show nothing."""

    def checked(self, derivation: Derivation, differences: int) -> None:
        """Show nothing."""

    def end(self) -> None:
        """Show nothing."""

    def took(self, duration_ns: int, expected_ns: int | None) -> None:
        """Show nothing."""
