# SPDX-License-Identifier: Apache-2.0
"""From operands to what a closure is exported of.

Edge: the project, the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from derive.build.service import evaluate
from derive.canonical import Digest
from derive.derivations.model import Derivation, Platform
from derive.operands import ByDigest, Named, Released, Working, parse_operand
from derive.project import Project
from derive.store.local import LocalStore


def closure_targets(
    store: LocalStore, project: Callable[[], Project], operands: Iterable[str], platform: Platform | None
) -> tuple[Derivation | Digest, ...]:
    """Return what operands name: a name as the project at hand means it now, a digest as the store knows it.

    A name is evaluated and never remembered: the fetches of its closure are then exactly its own.

    Raises:
        InputErrors: when nothing, or more than one thing, is meant.
        Missing: when no derivation is known that gave it.
    """
    from derive.why.find import Finder

    found: list[Derivation | Digest] = []
    for text in operands:
        operand = parse_operand(text, platform)
        match operand:
            case Working():
                known = project()
                found.append(evaluate(known, f"image:{known.settings.default_image}", platform))
            case Named(name=name, kind=kind, platform=said):
                found.append(evaluate(project(), name if kind == "any" else f"{kind}:{name}", said))
            case ByDigest() | Released():
                found.append(Finder(store, project, platform).derivation(operand).id)
            case _:
                assert_never(operand)
    return tuple(found)
