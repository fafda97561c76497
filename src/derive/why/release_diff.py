# SPDX-License-Identifier: Apache-2.0
"""What moved between two releases: their documents, what was edited, each image, and the shapes.

Edge: the store, through the finder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from derive.bisect.edits import Edit, edits_between
from derive.bisect.model import edit_document
from derive.canonical import Json
from derive.derivations.model import Platform
from derive.operands import Released, Working
from derive.store.local import LocalStore
from derive.why.compare import Comparison, compare
from derive.why.comparison import comparison_body, comparison_lines
from derive.why.find import Finder
from derive.why.release_shapes import ShapeMoved, shapes_moved
from derive.why.release_sides import ReleaseSide, release_sides
from derive.why.release_why import (
    facts_document,
    facts_moved,
    head_lines,
    shape_document,
    shape_rows,
    side_document,
)
from derive.why.render import Line, line


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDiff:
    """What moved. ``edits`` are those of the content, or the paths alone where some content is nowhere."""

    before: ReleaseSide
    after: ReleaseSide
    facts: tuple[tuple[str, str | None, str | None], ...]
    edits: tuple[Edit, ...]
    images: tuple[tuple[Platform, Comparison], ...]
    shapes: tuple[ShapeMoved, ...]

    @property
    def same(self) -> bool:
        """Whether nothing moved."""
        alike = before_images(self.before) == before_images(self.after)
        return alike and not (self.facts or self.edits or self.shapes)


def before_images(side: ReleaseSide) -> dict[str, str]:
    """Return an image's digest by platform, as text."""
    return {platform: str(one.digest) for platform, one in side.images.items()}


def diff_released(finder: Finder, first: Released | Working, second: Released | Working) -> ReleaseDiff:
    """Return what moved between two releases; raises InputErrors and Missing as the finder does."""
    before, after = release_sides(finder, first, second)
    both = sorted(before.images.keys() & after.images.keys())
    images = [(one, compare(finder, before.images[one].found, after.images[one].found)) for one in both]
    return ReleaseDiff(
        before=before,
        after=after,
        facts=(
            *facts_moved(before, after),
            *_recipes(before, after),
            *_images(before, after),
            *_capabilities(before, after),
        ),
        edits=tuple(_edits(before, after)),
        images=tuple(one for one in images if not one[1].same),
        shapes=shapes_moved(before.shapes, after.shapes),
    )


def _recipes(before: ReleaseSide, after: ReleaseSide) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield each recipe that says something else, whatever its layout and comments."""
    for name in sorted(before.recipes.keys() | after.recipes.keys()):
        old, new = before.recipes.get(name), after.recipes.get(name)
        if old != new:
            yield f"recipe {name}", None if old is None else str(old), None if new is None else str(new)


def _images(before: ReleaseSide, after: ReleaseSide) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield each platform whose image is another."""
    sides = before_images(before), before_images(after)
    for platform in sorted(sides[0].keys() | sides[1].keys()):
        old, new = (side.get(platform) for side in sides)
        if old != new:
            yield f"image {platform}", old, new


def _capabilities(before: ReleaseSide, after: ReleaseSide) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the capabilities of each image that both sides have recorded."""
    for platform in sorted(before.images.keys() & after.images.keys()):
        old, new = (set(side.images[platform].capabilities) for side in (before, after))
        recorded = before.digest is not None and after.digest is not None
        if recorded and old != new:
            texts = [" ".join(sorted(one)) or None for one in (old - new, new - old)]
            yield f"capabilities {platform}", texts[0], texts[1]


def _edits(before: ReleaseSide, after: ReleaseSide) -> Iterator[Edit]:
    if before.files is not None and after.files is not None:
        yield from edits_between(before.files, after.files)
        return
    for path in sorted(before.hashes.keys() | after.hashes.keys()):
        old, new = before.hashes.get(path), after.hashes.get(path)
        if old != new:
            yield Edit(path, (), "added" if old is None else "removed" if new is None else "changed")


def release_diff_lines(found: ReleaseDiff, store: LocalStore, *, everything: bool, texts: bool) -> Iterator[Line]:
    """Yield the answer for people, section by section."""
    yield from head_lines(found.before, found.after)
    if found.same:
        yield line("the same")
    if found.facts:
        yield from _titled("documents")
        for what, old, new in found.facts:
            yield line(f"  {what}: {old or 'nothing'} -> {new or 'nothing'}")
    if found.edits:
        yield from _titled("edits")
        yield from (line(f"  {edit}") for edit in found.edits)
    for platform, one in found.images:
        yield from _titled(f"image {platform}")
        yield from comparison_lines(one, store, everything=everything, texts=texts)
    if found.shapes:
        yield from _titled("shapes")
        for shape in found.shapes:
            yield from shape_rows(shape, why=False, everything=everything)


def _titled(text: str) -> Iterator[Line]:
    yield ()
    yield line(text, "strong")


def release_diff_body(found: ReleaseDiff) -> dict[str, Json]:
    """Return the answer as the body of a record."""
    return {
        "before": side_document(found.before),
        "after": side_document(found.after),
        "same": found.same,
        "facts": facts_document(found.facts),
        "edits": [edit_document(edit) for edit in found.edits],
        "images": [{"platform": platform, **comparison_body(one)} for platform, one in found.images],
        "shapes": [shape_document(one, why=False) for one in found.shapes],
    }
