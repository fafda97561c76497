# SPDX-License-Identifier: Apache-2.0
"""An artifact's own name, version and architecture, which must be those that the lock states.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from derive.errors import InputErrors, Problem, expected_got


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the lock says an artifact is.

    ``architecture`` in Debian's words: amd64, arm64, all; ``any`` for wheels without native code; None where there is
    none to check.
    """

    name: str
    version: str
    architecture: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What an artifact says it is. ``architectures`` are those that it runs on; empty says nothing."""

    name: str
    version: str
    architectures: frozenset[str] = frozenset()


def exactly(text: str) -> str:
    """Compare as written."""
    return text


def check_identity(
    archive: str,
    expected: Expected,
    stated: Stated,
    *,
    name: Callable[[str], object] = exactly,
    version: Callable[[str], object] = exactly,
) -> None:
    """Refuse an artifact that is not what was locked; ``name`` and ``version`` normalise before comparing.

    Raises:
        InputErrors: with one problem for each thing that differs.
    """
    problems: list[Problem] = []

    def differs(what: str, wanted: object, got: object) -> None:
        message = f"an artifact with another {what} than the lock states"
        hint = f"pin what this upstream serves now: derive lock --update {expected.name}"
        problems.append(Problem(where=archive, message=message, detail=expected_got(wanted, got), hint=hint))

    if name(expected.name) != name(stated.name):
        differs("name", expected.name, stated.name)
    if version(expected.version) != version(stated.version):
        differs("version", expected.version, stated.version)
    wanted, got = expected.architecture, stated.architectures
    if wanted is not None and got and wanted not in got:
        differs("architecture", wanted, ", ".join(sorted(got)))
    if problems:
        raise InputErrors(problems)
