# SPDX-License-Identifier: Apache-2.0
"""Releases as operands: which one is meant, which image of it, and its content as a project's folder.

Edge: ``records/releases/`` of a project, the store, the folders that content is looked for in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from derive.errors import InputErrors, Missing, expected_got
from derive.operands import Released

if TYPE_CHECKING:
    from derive.derivations.model import Derivation, Platform
    from derive.releases.document import ReleasedImage
    from derive.releases.find import Known
    from derive.why.find import Finder, FoundDerivation
    from derive.why.graph import Graph


def find(root: Path, wanted: Released) -> Known:
    """Return the release that an operand names; raises InputErrors as :func:`derive.releases.find.find_release`."""
    from derive.releases.find import find_release

    return find_release(root, wanted.name)


def is_release(root: Path, name: str) -> bool:
    """Say whether a project has documents of a release of this name; nothing of them is read."""
    return (root / "records" / "releases" / name / "release.json").is_file()


def image_of(known: Known, root: Path, platform: Platform | None, store: Path | None) -> tuple[Platform, ReleasedImage]:
    """Return the image of a release for a platform; without one its only image, or the usual one of its file.

    Raises:
        InputErrors: when it has no such image, or several, and its file is nowhere to say which is usual.
    """
    images = known.release.images
    if platform is None and len(images) > 1:
        platform = _usual(known, root, store)
    if platform is None and len(images) == 1:
        platform = next(iter(images))
    if platform is None:
        detail = [f"may be    release:{known.name}@{one}" for one in images]
        raise InputErrors.one(f"release:{known.name} has several images", detail=detail, hint="say which platform")
    if platform not in images:
        detail = [f"has       {one}" for one in images]
        raise InputErrors.one(f"release:{known.name} has no image for {platform}", detail=detail)
    return platform, images[platform]


def _usual(known: Known, root: Path, store: Path | None) -> Platform | None:
    """Return the platform that the image's file of then names as default."""
    from derive.canonical import sha256
    from derive.releases.content import usual_sources
    from derive.toml import parse_toml

    file = f"images/{next(iter(known.release.images.values())).name}.toml"
    wanted = {file: known.release.content[file]} if file in known.release.content else {}
    for source in usual_sources(known, root, store):
        for path, data in source.find(wanted):
            if path == file and sha256(data) == wanted[file]:
                named = (parse_toml(data, file)[0] or {}).get("default-platform")
                return next((one for one in known.release.images if one == named), None)
    return None


def released_image(finder: Finder, operand: Released) -> FoundDerivation:
    """Return a release's image: what it was made from, and what each step of it gave then, as recorded.

    Raises:
        InputErrors: when there is no such release, or several images may be meant.
        Missing: when the store has no documents of it, and today's engine does not evaluate its content to them.
    """
    from derive.why.find import FoundDerivation
    from derive.why.graph import Graph

    known = find(finder.root, operand)
    platform, image = image_of(known, finder.root, operand.platform or finder.platform, finder.store.root)
    graph = _documents(finder, known, platform, image)
    recorded = known.facts.images[platform].derivations
    outputs = {key: {name: str(output) for name, output in one.outputs.items()} for key, one in recorded.items()}
    graph = Graph(nodes=graph.nodes, fetches=graph.fetches, outputs={**graph.outputs, **outputs})
    return FoundDerivation(graph, image.derivation)


def _documents(finder: Finder, known: Known, platform: Platform, image: ReleasedImage) -> Graph:
    """Return the steps of a release's image as the store knows them, else as its content evaluates today."""
    graph = finder.closure([image.derivation])
    if graph.is_whole(image.derivation):
        return graph
    return finder.with_store(_evaluated(known, finder.root, platform, image, finder.store.root)).graph


def evaluated(operand: Released, root: Path, store: Path) -> Derivation:
    """Return a release's image as today's engine evaluates the content of then; raises as :func:`released_image`."""
    known = find(root, operand)
    platform, image = image_of(known, root, operand.platform, store)
    return _evaluated(known, root, platform, image, store)


def _evaluated(known: Known, root: Path, platform: Platform, image: ReleasedImage, store: Path) -> Derivation:
    from derive.build.service import evaluate
    from derive.project import load_project

    with laid_out(known, root, store) as folder:
        target = evaluate(load_project(folder), f"image:{image.name}", platform)
    if target.id != image.derivation:
        raise Missing(
            f"today's engine evaluates the content of {known.name} to other ids",
            detail=expected_got(image.derivation, target.id),
            hint=f"re-derive it with the engine of its time: derive audit {known.name}",
        )
    return target


def content_of(known: Known, root: Path, store: Path | None) -> dict[str, bytes] | None:
    """Return the release's content by path, from wherever it is; None where some of it is nowhere."""
    from derive.releases.content import look, usual_sources

    found = look(known, usual_sources(known, root, store))
    return None if found.absent else dict(found.files)


@contextmanager
def laid_out(known: Known, root: Path, store: Path | None) -> Iterator[Path]:
    """Yield a temporary folder that is the release's content as a project.

    Raises:
        Missing: when some of the content is nowhere; it says which files.
    """
    from derive.releases.checkout import checkout

    with TemporaryDirectory(prefix="derive-release-") as folder:
        place = Path(folder) / known.name
        checkout(known, place, root, store=store)
        yield place
