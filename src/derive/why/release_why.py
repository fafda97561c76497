# SPDX-License-Identifier: Apache-2.0
"""Why one release became another: image by image each cause with the bytes that it moved, then the shapes.

Edge: the store, through the finder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Digest, Json
from derive.derivations.model import Platform
from derive.errors import InputErrors
from derive.operands import Named, Operand, Released, Working
from derive.shapes.lines import moved_lines, shape_body
from derive.why.causes import Cause, keyed_causes, walk
from derive.why.documents import cause_document
from derive.why.find import Finder, FoundDerivation
from derive.why.moved import Moved
from derive.why.moved_words import cause_rows, cause_text, causeless_lines, moved_document, path_rows, sum_lines
from derive.why.release_shapes import ShapeMoved, shapes_moved
from derive.why.release_sides import ReleaseSide, release_sides
from derive.why.render import Line, Span, line, printable
from derive.why.weighing import one_line_key, weigh_images
from derive.why.words import indented


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMoved:
    """A release's image for a platform; None where a side has none, or it is not derived there.

    ``causes`` are there where nothing is known of bytes, since one of the two was never derived.
    """

    platform: Platform
    before: Digest | None
    after: Digest | None
    moved: Moved | None
    note: str = ""
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseMoved:
    """All that moved between two releases; ``facts`` are single values: what, before, after."""

    before: ReleaseSide
    after: ReleaseSide
    images: tuple[ImageMoved, ...]
    shapes: tuple[ShapeMoved, ...]
    facts: tuple[tuple[str, str | None, str | None], ...]

    @property
    def causeless(self) -> bool:
        """Whether anything moved without a cause."""
        images = any(one.moved is not None and one.moved.causeless for one in self.images)
        return images or any(one.causeless for one in self.shapes)


def release_operands(finder: Finder, first: Operand, second: Operand) -> tuple[Released | Working, ...] | None:
    """Return both operands where they are releases, or one is and the other is ``.``; None for all else."""
    found = [finder.meant(one) if isinstance(one, Named) else one for one in (first, second)]
    if not any(isinstance(one, Released) for one in found):
        return None
    sides = tuple(one for one in found if isinstance(one, Released | Working))
    return sides if len(sides) == 2 else None


def why_released(finder: Finder, first: Released | Working, second: Released | Working) -> ReleaseMoved:
    """Return why one release became another; raises InputErrors and Missing as the finder does."""
    before, after = release_sides(finder, first, second)
    if not before.images.keys() & after.images.keys():
        raise InputErrors.one(f"{before.title} and {after.title} have no platform in common")
    return ReleaseMoved(
        before=before,
        after=after,
        images=tuple(_image(finder, one, before, after) for one in sorted({**before.images, **after.images})),
        shapes=shapes_moved(before.shapes, after.shapes),
        facts=tuple(facts_moved(before, after)),
    )


def facts_moved(before: ReleaseSide, after: ReleaseSide) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the single values of two sides that differ; None where a side has none."""
    for key in dict.fromkeys([*before.facts, *after.facts]):
        old, new = before.facts.get(key), after.facts.get(key)
        if old != new:
            yield key, old, new


def _image(finder: Finder, platform: Platform, before: ReleaseSide, after: ReleaseSide) -> ImageMoved:
    old, new = before.images.get(platform), after.images.get(platform)
    contents = [side.files for side in (before, after) if side.files is not None]
    digests = [None if one is None else one.digest for one in (old, new)]
    moved: Moved | None = None
    note = ""
    causes: tuple[Cause, ...] = ()
    if old is None or new is None:
        note = f"only in {(before if new is None else after).title}"
    elif digests[0] is None or digests[1] is None:
        note = f"not derived of {(before if digests[0] is None else after).title} yet: which bytes move is not known"
        causes = _expected(finder, old.found, new.found, contents)
    elif digests[0] != digests[1]:
        both = old.layers, new.layers
        moved = weigh_images(
            finder,
            old.found,
            new.found,
            key_of=one_line_key,
            layers=(both[0], both[1]) if both[0] is not None and both[1] is not None else None,
            contents=contents,
        )
    return ImageMoved(platform=platform, before=digests[0], after=digests[1], moved=moved, note=note, causes=causes)


def _expected(
    finder: Finder, first: FoundDerivation, second: FoundDerivation, contents: Iterable[Mapping[str, bytes]]
) -> tuple[Cause, ...]:
    """Return why two images differ, of which one is not derived."""
    graph = first.graph | second.graph
    graph = finder.labelled(finder.with_fetches(graph, graph.fixed(first.id) ^ graph.fixed(second.id)), contents)
    return tuple(keyed_causes(walk(graph, first.id, second.id), one_line_key).values())


def release_lines(found: ReleaseMoved, *, everything: bool) -> Iterator[Line]:
    """Yield the answer for people; with ``everything`` also the paths that each cause moved, and long values."""
    yield from head_lines(found.before, found.after)
    if not found.facts and not found.shapes and all(one.before == one.after for one in found.images):
        yield line("the same images and shapes")
    for what, old, new in found.facts:
        yield line(f"{what}: {old or 'nothing'} -> {new or 'nothing'}")
    for one in found.images:
        yield ()
        yield from _image_lines(one, everything=everything)
    engines = next(((old, new) for what, old, new in found.facts if what == "engine"), None)
    if found.causeless and engines is not None:
        yield ()
        yield line(
            f"made by another engine, too ({engines[0]} -> {engines[1]}): a builder whose bytes move has a new version"
        )
    if found.shapes:
        yield ()
        yield line("shapes", "strong")
        for shape in found.shapes:
            yield from shape_rows(shape, why=True, everything=everything)


def head_lines(before: ReleaseSide, after: ReleaseSide) -> Iterator[Line]:
    """Name the two sides."""
    for sign, side in (("-", before), ("+", after)):
        digest = "" if side.digest is None else f"  {side.digest}"
        yield (Span(printable(f"{sign} {side.title}{digest}"), "removed" if sign == "-" else "added"),)


def _image_lines(one: ImageMoved, *, everything: bool) -> Iterator[Line]:
    digests = [digest.short if digest is not None else "nothing" for digest in (one.before, one.after)]
    same = one.before == one.after and one.before is not None
    yield line(f"image {one.platform}  {digests[0] if same else f'{digests[0]} -> {digests[1]}'}", "strong")
    if same:
        yield line("  the same", "dim")
    elif one.note:
        yield line(f"  {one.note}", "dim")
    yield from (line(f"  {cause_text(cause)}") for cause in one.causes)
    if one.moved is None:
        return
    if not one.moved.causes and not one.moved.causeless:
        yield line("  label only: no byte moved but the id that the image carries")
    yield from (indented(row) for row in cause_rows(one.moved))
    if everything:
        yield from (indented(row) for row in path_rows(one.moved))
    yield from (indented(row) for row in causeless_lines(one.moved))
    yield from (indented(row) for row in sum_lines(one.moved))


def shape_rows(one: ShapeMoved, *, why: bool, everything: bool) -> Iterator[Line]:
    """Show a shape whose bundle moved, and what moved in what it tells the nodes."""
    digests = [digest.short if digest is not None else "nothing" for digest in (one.before, one.after)]
    yield line(f"  {one.name}  {digests[0]} -> {digests[1]}")
    yield from (line(f"    {cause}") for cause in one.causes)
    if one.keys is not None:
        yield from (indented(row, 4) for row in moved_lines(one.keys, why=why, everything=everything))
    if one.note:
        yield line(f"    {one.note}", "dim")
    if one.causeless:
        text = "    moved without a cause: nothing that the bundle is a function of did"
        yield (Span(text, "removed"),)


def release_body(found: ReleaseMoved) -> dict[str, Json]:
    """Return the answer as the body of a record."""
    return {
        "before": side_document(found.before),
        "after": side_document(found.after),
        "facts": facts_document(found.facts),
        "images": [
            {
                "platform": one.platform,
                "before": None if one.before is None else str(one.before),
                "after": None if one.after is None else str(one.after),
                "note": one.note or None,
                "moved": None if one.moved is None else moved_document(one.moved),
                "causes": [cause_document(cause) for cause in one.causes],
            }
            for one in found.images
        ],
        "shapes": [shape_document(one, why=True) for one in found.shapes],
        "without_cause": found.causeless,
    }


def side_document(side: ReleaseSide) -> dict[str, Json]:
    """Return what a side is called."""
    return {"title": side.title, "recipe": side.recipe, "release": None if side.digest is None else str(side.digest)}


def facts_document(facts: tuple[tuple[str, str | None, str | None], ...]) -> list[Json]:
    """Return single values that moved."""
    return [{"what": what, "before": old, "after": new} for what, old, new in facts]


def shape_document(one: ShapeMoved, *, why: bool) -> dict[str, Json]:
    """Return a shape that moved as a part of a record."""
    return {
        "shape": one.name,
        "before": None if one.before is None else str(one.before),
        "after": None if one.after is None else str(one.after),
        "causes": list(one.causes),
        "keys": None if one.keys is None else shape_body(one.keys, why=why),
        "note": one.note or None,
        "without_cause": one.causeless,
    }
