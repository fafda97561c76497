# SPDX-License-Identifier: Apache-2.0
"""The two sides of a question about releases: a release as it is written down, or the working tree as one would be.

Edge: the project, its releases, the store, through the finder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.canonical import Digest, Json
from derive.derivations.model import FlatOutput, Platform, parse_output
from derive.errors import InputErrors
from derive.operands import Released, Working
from derive.why.find import Finder, FoundDerivation
from derive.why.pull import Blob
from derive.why.release_shapes import ShapesSide

if TYPE_CHECKING:
    from derive.releases.describe import Question
    from derive.releases.find import Known
    from derive.releases.shapes import Served


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSide:
    """A release's image for a platform. ``layers`` by name, None where nothing is recorded of them."""

    found: FoundDerivation
    digest: Digest | None
    layers: Mapping[str, Blob] | None = None
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSide:
    """One side. ``facts`` are single values by what they are called; ``hashes`` those of content files, by path.

    ``recipes`` are the digests of recipes as parsed.
    ``files`` is the content itself, None where some of it is nowhere.
    """

    title: str
    recipe: str
    digest: Digest | None
    images: Mapping[Platform, ImageSide]
    facts: Mapping[str, str]
    recipes: Mapping[str, Digest]
    hashes: Mapping[str, Digest]
    files: Mapping[str, bytes] | None
    shapes: ShapesSide


def release_sides(
    finder: Finder, first: Released | Working, second: Released | Working
) -> tuple[ReleaseSide, ReleaseSide]:
    """Return both sides; beside a release, ``.`` is what the working tree makes of its recipe and platforms.

    Raises:
        InputErrors: when either cannot be found, or both are ``.``.
        Missing: when the documents of a release's image are nowhere.
    """
    from derive.why.released import find

    known = {one: find(finder.root, one) for one in (first, second) if isinstance(one, Released)}
    if not known:
        raise InputErrors.one("the working tree beside itself", hint="name a release to compare it with")
    sides = []
    for one, other in ((first, second), (second, first)):
        if isinstance(one, Released):
            sides.append(_recorded(finder, known[one], one.platform or finder.platform))
        else:
            assert isinstance(other, Released)
            sides.append(_working(finder, known[other], other.platform or finder.platform))
    return sides[0], sides[1]


def _recorded(finder: Finder, known: Known, platform: Platform | None) -> ReleaseSide:
    from derive.why.released import content_of

    release, facts = known.release, known.facts
    files = content_of(known, finder.root, finder.store.root)
    images = {
        one: ImageSide(
            found=finder.released(Released(known.name, one)),
            digest=release.images[one].digest,
            layers={layer.name: (str(layer.digest), layer.size_bytes) for layer in facts.images[one].layers},
            capabilities=facts.images[one].capabilities,
        )
        for one in release.images
        if platform in (None, one)
    }
    if not images:
        raise InputErrors.one(f"release:{known.name} has no image for {platform}")
    own = {
        "engine": f"{release.engine.version} ({release.engine.digest.short})",
        "default image": release.default_image,
        "build platform": release.build_platform,
        **_model(release.model),
    }
    return ReleaseSide(
        title=f"release:{known.name}",
        recipe=release.recipe,
        digest=known.digest,
        images=images,
        facts=own,
        recipes=release.recipes,
        hashes={**release.lock, **release.content},
        files=files,
        shapes=ShapesSide(
            title=known.name,
            bundles={name: one.bundle for name, one in release.shapes.items()},
            images={one: image.digest for one, image in release.images.items()},
            model=release.model,
            engine=str(release.engine.digest),
            templates=_templates(release.content),
            served=None if files is None else _served(files, release.recipe),
        ),
    )


def _working(finder: Finder, beside: Known, platform: Platform | None) -> ReleaseSide:
    from derive import __version__
    from derive.build.engine import engine_digest
    from derive.releases.describe import question_of
    from derive.releases.shapes import content_hashes, lock_hashes

    recipe = beside.release.recipe
    platforms = [one for one in beside.release.images if platform in (None, one)]
    question = question_of(finder.working_project, recipe, platforms)
    images = {one: _evaluated(finder.with_store(target)) for one, target in question.targets.items()}
    settings, model = question.project.settings, question.served.model()
    own = {
        "engine": f"{__version__} ({engine_digest().short})",
        "default image": settings.default_image,
        "build platform": settings.build_platform,
        **_model(model),
    }
    content = content_hashes(question.files)
    return ReleaseSide(
        title=".",
        recipe=recipe,
        digest=None,
        images=images,
        facts=own,
        recipes=question.served.digests,
        hashes={**lock_hashes(question.files), **content},
        files=question.files,
        shapes=ShapesSide(
            title="the working tree",
            bundles=_bundles(question, images),
            images={one: image.digest for one, image in images.items() if image.digest is not None},
            model=model,
            engine=str(engine_digest()),
            templates=_templates(content),
            served=question.served,
        ),
    )


def _evaluated(found: FoundDerivation) -> ImageSide:
    text = found.graph.outputs.get(found.id, {}).get("out")
    output = None if text is None else parse_output(text)
    return ImageSide(found=found, digest=output.digest if isinstance(output, FlatOutput) else None)


def _bundles(question: Question, images: Mapping[Platform, ImageSide]) -> dict[str, Digest | None]:
    """Return the bundle of each shape of which the image is derived."""
    from derive.canonical import digest_document
    from derive.render.bundle import shape_document

    found: dict[str, Digest | None] = {}
    for name, judged in question.served.shapes.items():
        image = images.get(judged.platform)
        digest = None if image is None else image.digest
        fabric = question.served.recipe.fabric
        found[name] = (
            None if digest is None else digest_document(shape_document(judged.resolved, digest, fabric, question.files))
        )
    return found


def _served(files: Mapping[str, bytes], recipe: str) -> Served | None:
    """Read a release's recipe as today's engine does; None where that cannot."""
    from derive.releases.shapes import read_served

    try:
        return read_served(files, recipe)
    except InputErrors:
        return None


def _templates(content: Mapping[str, Digest]) -> dict[str, Digest]:
    return {path: digest for path, digest in content.items() if path.startswith("render/")}


def _model(model: Mapping[str, Json] | None) -> dict[str, str]:
    if model is None:
        return {}
    return {"model": f"{model.get('repository')} {model.get('revision') or 'unpinned'}"}
