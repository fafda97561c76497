# SPDX-License-Identifier: Apache-2.0
"""Judges the maintainer scripts that were not run: each is covered, waived with a reason, or an error.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from derive.debian.declaration import Excuse, RootDeclaration
from derive.debian.package import SCRIPTS_THAT_INSTALL, SCRIPTS_THAT_WAIT, UnpackedDeb
from derive.errors import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Lines for the log, and what is wrong."""

    log: tuple[str, ...]
    problems: tuple[Problem, ...]


def judge_scripts(packages: Sequence[UnpackedDeb], declaration: RootDeclaration) -> Judgement:
    """List every script of the packages; one that installs and has no excuse, and an unused excuse, are problems."""
    log: list[str] = []
    problems: list[Problem] = []
    used: set[tuple[str, str]] = set()
    for package in packages:
        for script in SCRIPTS_THAT_INSTALL:
            if not package.has(script):
                continue
            subject = f"{package.stanza.package}.{script}"
            excuse = _excuse(subject, declaration, used)
            if excuse is None:
                problems.append(_unexcused(package, script, subject))
            else:
                log.append(f"not run: {package.label} {script}: {excuse}")
        log += [f"not run: {package.label} {name}" for name in SCRIPTS_THAT_WAIT if package.has(name)]
    for table, excuses in (("covered", declaration.covered), ("waived", declaration.waived)):
        problems += [
            Problem(where=f"{table}.{excuse.pattern}", message="matches no script of these packages", hint="remove it")
            for excuse in excuses
            if (table, excuse.pattern) not in used
        ]
    return Judgement(log=tuple(log), problems=tuple(problems))


def _excuse(subject: str, declaration: RootDeclaration, used: set[tuple[str, str]]) -> str | None:
    """Return the first excuse by table and pattern, and count every one that matches as used."""
    found: list[str] = []
    tables: tuple[tuple[str, tuple[Excuse, ...]], ...] = (
        ("covered", declaration.covered),
        ("waived", declaration.waived),
    )
    for table, excuses in tables:
        for excuse in sorted(excuses, key=lambda e: e.pattern):
            if fnmatchcase(subject, excuse.pattern):
                used.add((table, excuse.pattern))
                found.append(f"{table}: {excuse.reason}")
    return found[0] if found else None


def _unexcused(package: UnpackedDeb, script: str, subject: str) -> Problem:
    return Problem(
        where=f"{package.label}: {script}",
        message="a maintainer script that is not run, and is neither covered nor waived",
        hint=f'read it, then add "{subject}" to covered or to waived, with the reason',
    )
