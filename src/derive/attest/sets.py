# SPDX-License-Identifier: Apache-2.0
"""The lock sets that an image draws on: those that its declarations name, and those below them.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.derivations.bases import image_parts, locked_bases
from derive.derivations.declarations import DebianRootDecl, Declaration, SourceDecl, UnpackDecl, WheelsDecl
from derive.derivations.scope import Scope, references


def lock_sets(scope: Scope, image: str) -> tuple[str, ...]:
    """Return the names of the sets, sorted."""
    found = set(locked_bases(scope, image))
    seen: set[str] = set()
    waiting = image_parts(scope, image)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        declaration = scope.declared[name].declaration
        found.update(_named(declaration))
        waiting += [target for _, target in references(declaration)]
    return tuple(sorted(found))


def _named(declaration: Declaration) -> Iterator[str]:
    match declaration:
        case DebianRootDecl(set=name) | WheelsDecl(set=name):
            yield name
        case SourceDecl() | UnpackDecl():
            yield declaration.source.set
        case _:
            pass
