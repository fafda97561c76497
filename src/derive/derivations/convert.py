# SPDX-License-Identifier: Apache-2.0
"""From a declared Debian root to the document that its derivation carries.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.canonical import Json
from derive.content import key_path
from derive.debian.declaration import (
    Account,
    Alternative,
    Excuse,
    Group,
    Replaces,
    RootDeclaration,
    TextFile,
    from_document,
    root_path,
    to_document,
)
from derive.derivations.declarations import DebianRootDecl
from derive.errors import InputErrors, Problem


def root_document(decl: DebianRootDecl, architecture: str, where: str) -> tuple[Json, list[Problem]]:
    """Return the declaration as its canonical document, and every problem with file and key."""
    problems: list[Problem] = []
    paths = _Paths(where, problems)
    root = RootDeclaration(
        architecture=architecture,
        accounts=tuple(Account(name=name, **account.model_dump()) for name, account in decl.accounts.items()),
        groups=tuple(Group(name=name, gid=gid) for name, gid in decl.groups.items()),
        alternatives=tuple(
            Alternative(link=paths(link, "alternatives", link), target=paths(target, "alternatives", link))
            for link, target in decl.alternatives.items()
        ),
        files=tuple(TextFile(path=paths(path, "files", path), text=text) for path, text in decl.files.items()),
        replaces=tuple(
            Replaces(path=paths(path, "replaces", path), package=package) for path, package in decl.replaces.items()
        ),
        covered=_excuses(decl.covered),
        waived=_excuses(decl.waived),
    )
    document = to_document(root)
    if not problems:
        try:
            from_document(document, where=where)
        except InputErrors as error:
            problems.extend(error.problems())
    return document, problems


def _excuses(excuses: Mapping[str, str]) -> tuple[Excuse, ...]:
    return tuple(Excuse(pattern=pattern, reason=reason) for pattern, reason in excuses.items())


class _Paths:
    """Reads absolute paths; what is wrong is noted with its key."""

    def __init__(self, where: str, problems: list[Problem]) -> None:
        self._where = where
        self._problems = problems

    def __call__(self, text: str, table: str, key: str) -> bytes:
        try:
            return root_path(text)
        except ValueError as error:
            self._problems.append(Problem(where=f"{self._where}.{key_path((table, key))}", message=str(error)))
            return text.encode("utf-8", "replace")
