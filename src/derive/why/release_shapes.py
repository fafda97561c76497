# SPDX-License-Identifier: Apache-2.0
"""Which shape bundles moved between two releases, and what caused it: the image, the pin, a template, a key or rule.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Digest, Json
from derive.derivations.model import Platform
from derive.releases.shapes import Served
from derive.shapes.compare import compare_sides
from derive.shapes.model import ShapeComparison
from derive.shapes.sides import shape_side


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapesSide:
    """A release's shapes, and what their bundles are functions of.

    ``bundles`` has None for a shape whose image is not derived; ``served`` is the recipe as read, None where its
    content is nowhere or today's engine cannot read it.
    """

    title: str
    bundles: Mapping[str, Digest | None]
    images: Mapping[Platform, Digest]
    model: Mapping[str, Json] | None
    engine: str
    templates: Mapping[str, Digest]
    served: Served | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeMoved:
    """A shape that came, went or has another bundle. ``causes`` are lines; ``keys`` what its nodes are told otherwise.

    ``causeless``: the bundle moved, and nothing that it is a function of did.
    """

    name: str
    before: Digest | None
    after: Digest | None
    causes: tuple[str, ...] = ()
    keys: ShapeComparison | None = None
    causeless: bool = False
    note: str = ""


def shapes_moved(before: ShapesSide, after: ShapesSide) -> tuple[ShapeMoved, ...]:
    """Return the shapes that moved, by name."""
    names = sorted(before.bundles.keys() | after.bundles.keys())
    return tuple(found for name in names if (found := _moved(name, before, after)) is not None)


def _moved(name: str, before: ShapesSide, after: ShapesSide) -> ShapeMoved | None:
    old, new = before.bundles.get(name), after.bundles.get(name)
    if name not in before.bundles or name not in after.bundles:
        word = "added" if name not in before.bundles else "removed"
        return ShapeMoved(name=name, before=old, after=new, causes=(f"the shape is {word} in the recipe",))
    if old is not None and old == new:
        return None
    keys = _keys(name, before, after)
    causes = [*_inputs(name, before, after)]
    told = keys is not None and not keys.same
    if not causes and not told and before.engine != after.engine:
        causes.append(f"engine {before.engine[7:19]} -> {after.engine[7:19]}: it renders otherwise")
    if old is None or new is None:
        if not causes and not told:
            return None
        return ShapeMoved(name=name, before=old, after=new, causes=tuple(causes), keys=keys, note="not derived yet")
    return ShapeMoved(
        name=name,
        before=old,
        after=new,
        causes=tuple(causes),
        keys=keys,
        causeless=not causes and not told and keys is not None,
        note="" if keys is not None else "its recipe could not be read on both sides: no key could be compared",
    )


def _keys(name: str, before: ShapesSide, after: ShapesSide) -> ShapeComparison | None:
    if before.served is None or after.served is None:
        return None
    sides = [shape_side(one.shapes[name].resolved, one.recipe.fabric) for one in (before.served, after.served)]
    return compare_sides({"": sides[0]}, {"": sides[1]}, (before.title, after.title))


def _inputs(name: str, before: ShapesSide, after: ShapesSide) -> Iterator[str]:
    """Yield what a bundle follows from beside its recipe."""
    platforms = {one.served.shapes[name].platform for one in (before, after) if one.served is not None}
    for platform in sorted(platforms or before.images.keys() | after.images.keys()):
        old, new = before.images.get(platform), after.images.get(platform)
        if old != new:
            yield f"image {platform}: {_short(old)} -> {_short(new)}"
    if before.model != after.model and (before.served is None or after.served is None):
        yield "the model's pin"
    for path in sorted(before.templates.keys() | after.templates.keys()):
        if before.templates.get(path) != after.templates.get(path):
            yield path


def _short(digest: Digest | None) -> str:
    return "not derived" if digest is None else digest.short
