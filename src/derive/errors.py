# SPDX-License-Identifier: Apache-2.0
"""Every error that a person can meet, as data: what happened, where, what was expected, and one next step.

Core: no IO.

    DeriveError                      exit 3: could not be done
    |- InputErrors                   exit 2: wrong usage or input, every problem at once
    |- CheckFailed                   exit 1: the answer is no
    |  |- Contradicted               trusted builders, or one of them and this machine, say two things of one step
    |- BuildFailed                   exit 3: a builder or its script failed; names the log
    |  |- SeveralFailed              exit 2 or 3, that of the gravest: steps that failed beside each other
    |- Unavailable                   exit 3: host, network, space, upstream
    |  |- UpstreamGone               an upstream no longer serves what the lock names
    |  |- HostRefuses                this machine cannot do it (namespaces, tools, space)
    |- Corrupt                       exit 3: bytes differ from what their name says
    |  |- RecordEdited               exit 2: a record of the project, or a document of a release, was edited
    |- Missing                       exit 3: absent from the store
    |  |- RecordGone                 exit 2: a document that a record names is not there
    `- Interrupted                   exit 130

The command line formats them; nothing here prints or exits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One thing wrong with the input.

    ``where`` is ``file`` or ``file: key.path[2]``; ``message`` a lower-case fragment; ``detail`` aligned lines such as
    expected and got; ``hint`` one next step.
    """

    where: str
    message: str
    detail: tuple[str, ...] = ()
    hint: str | None = None


class DeriveError(Exception):
    """Base of all errors raised for a person to read; ``log`` is where the output of the step that failed is kept."""

    exit_code = 3
    log: str | None = None

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        detail: Iterable[str] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.detail = tuple(detail)
        self.hint = hint

    def problems(self) -> tuple[Problem, ...]:
        """Return this error as the problems that the command line prints."""
        return (Problem(where=self.where or "", message=self.message, detail=self.detail, hint=self.hint),)


_DIGITS = 18
"""Longer ones number nothing that is in order, and Python reads none of thousands of digits."""


def _natural(text: str) -> list[tuple[int, str]]:
    """Sort key in which line 9 comes before line 10."""
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if part.isdecimal() and len(part) <= _DIGITS else (-1, part) for part in parts]


class InputErrors(DeriveError):
    """Wrong usage or input: all problems found, sorted by place."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        if not problems:
            msg = "InputErrors needs at least one problem"
            raise ValueError(msg)
        ordered = tuple(sorted(set(problems), key=lambda p: (_natural(p.where), p.message, p.detail)))
        super().__init__(f"{len(ordered)} problem{'s' if len(ordered) > 1 else ''} in the input")
        self._problems = ordered

    @classmethod
    def one(cls, message: str, *, where: str = "", detail: Iterable[str] = (), hint: str | None = None) -> InputErrors:
        """Build the error for a single problem."""
        return cls((Problem(where=where, message=message, detail=tuple(detail), hint=hint),))

    def problems(self) -> tuple[Problem, ...]:
        """Return every problem, sorted by place."""
        return self._problems


class CheckFailed(DeriveError):
    """The answer is no: something differs, or a finding stands."""

    exit_code = 1


class Contradicted(CheckFailed):
    """Builders who are trusted, or one of them and this machine, say two things of one step: nothing of it is taken."""


class BuildFailed(DeriveError):
    """A builder, or the script it ran, failed."""

    def __init__(
        self,
        message: str,
        *,
        log: str | None = None,
        where: str | None = None,
        detail: Iterable[str] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=where, detail=detail, hint=hint)
        self.log = log


class SeveralFailed(BuildFailed):
    """Steps that ran at once failed, each for itself; ``errors`` are sorted by the steps' names."""

    def __init__(self, errors: Sequence[DeriveError]) -> None:
        super().__init__(f"{len(errors)} steps failed")
        self.errors = tuple(errors)
        self.exit_code = max(error.exit_code for error in errors)

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of every step."""
        return tuple(problem for error in self.errors for problem in error.problems())


class Unavailable(DeriveError):
    """A host, network, tool or resource is not there now."""


class UpstreamGone(Unavailable):
    """An upstream answers, and no longer serves what the lock names."""


class HostRefuses(Unavailable):
    """This machine cannot do what is asked: namespaces refused, a tool missing, no space left."""


class Corrupt(DeriveError):
    """Bytes are not what their digest says."""


class Missing(DeriveError):
    """The store does not hold what was asked for."""


class RecordEdited(Corrupt):
    """A record of the project, or a document that one names, is not as it was written: to a command it is input."""

    exit_code = 2


class RecordGone(Missing):
    """A document that a record of the project names is not there."""

    exit_code = 2


class Interrupted(DeriveError):
    """Stopped by the person; everything finished is kept."""

    exit_code = 130


def expected_got(expected: object, got: object) -> tuple[str, str]:
    """Return the two aligned detail lines that every comparison prints."""
    return (f"expected  {expected}", f"got       {got}")
