# SPDX-License-Identifier: Apache-2.0
"""A release in a few rows: its images, shapes, upstreams and kernels, as its documents have them.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.releases.document import Release
from derive.releases.facts import Facts, UpstreamFact
from derive.words import count_text, size_text


def rows_of(release: Release, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what a release is, as rows of two cells."""
    yield "recipe", f"{release.recipe_digest}  {release.recipe}"
    for platform, image in release.images.items():
        layers = facts.images[platform].layers
        size = size_text(sum(layer.size_bytes for layer in layers))
        steps = count_text(len(facts.images[platform].derivations), "derivation")
        made_of = f"{count_text(len(layers), 'layer')}, {size}, {steps}"
        yield "image", f"{image.digest}  {image.name} {platform}: {made_of}"
    for name, shape in release.shapes.items():
        waits = "" if shape.deployable else f", not deployable{_needs(shape.needs)}"
        yield "shape", f"{shape.bundle}  {name}{waits}"
    if release.model is not None:
        yield "model", f"{release.model.get('repository')} {release.model.get('revision') or 'not pinned'}"
    yield from (("upstream", _upstream(one)) for one in facts.upstreams)
    if facts.kernels:
        units = {str(one["unit"]) for one in facts.kernels}
        yield "kernels", f"{count_text(len(units), 'unit')} in {count_text(len(facts.kernels), 'compiled part')}"
    content = len(release.lock) + len(release.content) + len(release.recipes)
    yield "content", count_text(content, "file")
    yield "engine", f"{release.engine.digest}  derive {release.engine.version}"


def _needs(needs: tuple[str, ...]) -> str:
    return f": needs {', '.join(needs)}" if needs else ""


def _upstream(one: UpstreamFact) -> str:
    commit = "" if one.commit is None else f" at {one.commit[:12]}"
    patches = "" if not one.series else f", {count_text(len(one.series), 'patch', 'patches')}"
    return f"{one.patched or one.tree}  {one.name}{commit}{patches}"
