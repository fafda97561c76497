# SPDX-License-Identifier: Apache-2.0
"""What of an image's closure verifying looks at: the trees it is the union of, and what its wishes decided.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from derive.derivations.bases import image_parts
from derive.derivations.declarations import WheelsDecl
from derive.derivations.model import Derivation
from derive.derivations.scope import Scope, references
from derive.images.oci import ImageConfig
from derive.lock.wishes import PythonWish
from derive.net.names import normalise
from derive.verify.rules.wheels import Resolution

RECORDED = ("record",)
"""Builders of trees whose every path a RECORD among them has."""


def root_of(image: Derivation) -> Derivation:
    """Return the derivation of the union of all that an image holds."""
    return image.inputs["root"].derivation


def parts_of(root: Derivation) -> list[Derivation]:
    """Return the trees that the union of all is made of, as its declarations name them; each once, in their order."""
    parts = (
        [reference.derivation for _, reference in sorted(root.inputs.items())] if root.builder == "compose" else [root]
    )
    return list({part.id.hex: part for part in parts}.values())


def to_probe(parts: Sequence[Derivation], is_there: Callable[[Derivation], bool]) -> list[Derivation]:
    """Return the trees whose files are to be probed: what unions are made of, so that a change costs one tree.

    Of a union that is there, while what it is made of is not, its own files are probed: they are the same.
    """
    found: dict[str, Derivation] = {}
    waiting = [*reversed(parts)]
    while waiting:
        tree = waiting.pop()
        below = [reference.derivation for _, reference in sorted(tree.inputs.items())]
        if tree.builder == "compose" and (all(map(is_there, below)) or not is_there(tree)):
            waiting += reversed(below)
        else:
            found[tree.id.hex] = tree
    return list(found.values())


def resolution_of(scope: Scope, image: str) -> Resolution:
    """Return what the wishes of an image's wheels asked for, overrode and left out."""
    wanted: list[str] = []
    overrides: dict[str, tuple[str, str]] = {}
    without: dict[str, str] = {}
    for declared in _wheels(scope, image):
        wish = scope.wishes.get(declared.set)
        without |= declared.without
        if isinstance(wish, PythonWish):
            wanted += wish.requirements
            overrides |= {normalise(name): (one.version, one.reason) for name, one in wish.overrides.items()}
    return Resolution(wanted=tuple(wanted), overrides=overrides, without=without)


def _wheels(scope: Scope, image: str) -> Iterator[WheelsDecl]:
    waiting = image_parts(scope, image)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        declared = scope.declared.get(name)
        if name in seen or declared is None:
            continue
        seen.add(name)
        if isinstance(declared.declaration, WheelsDecl):
            yield declared.declaration
        waiting += [target for key, target in references(declared.declaration) if key != "root"]


def config_of(image: Derivation) -> ImageConfig:
    """Return how a container of an image is started."""
    return ImageConfig.from_document(image.arguments["config"])
