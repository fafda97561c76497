# SPDX-License-Identifier: Apache-2.0
"""The facts that checks judge, as values: files, what git says of them, the site's file, the day.

Core: no IO. Standard library only.

What could not be read is a fact too, with its reason: whatever needs it is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from derive.errors import Problem
    from derive.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Something that could not be read, and why, in a lower-case fragment."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SecretFact:
    """A place in a tracked file that looks like a secret; never the secret itself.

    ``line`` counts from 1. ``staged`` says that it stands in what git would commit, and no longer in the folder.
    """

    path: str
    line: int
    kind: str
    staged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GitFacts:
    """What git says of the project's folder.

    ``tracked`` are paths below the project; ``secrets`` what stands in them; ``unread`` those that could not be read;
    ``branches`` the names of all branches, remote ones without their remote's name.
    """

    tracked: frozenset[str]
    secrets: tuple[SecretFact, ...] = ()
    unread: tuple[Unreadable, ...] = ()
    branches: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFile:
    """The site's file, as far as it could be read.

    ``file`` is what it is called in messages; ``mode`` its permission bits, None where not known. ``inside`` is its
    path below the repository when it lies there, and then git has it (``tracked``) or passes over it (``ignored``),
    each None where git did not say.
    """

    file: str
    data: bytes | Unreadable
    mode: int | None = None
    inside: str | None = None
    tracked: bool | None = None
    ignored: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that is judged.

    ``project`` has the content that decides images' bytes, None where there is no telling it; ``reading`` what was
    wrong with settings and content while it was read. ``launching`` has the files that decide launch files, and
    ``records`` those below ``records/``, both by path below the project. ``site`` is None where there is no file of
    one. ``recipe`` is the only one to look at, None for all. ``today`` is a date, ``2026-11-30``.
    """

    project: Project | None
    reading: tuple[Problem, ...]
    launching: Mapping[str, bytes]
    records: Mapping[str, bytes | Unreadable]
    git: GitFacts | Unreadable
    site: SiteFile | None
    today: str
    recipe: str | None = None
