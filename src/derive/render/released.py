# SPDX-License-Identifier: Apache-2.0
"""A release as what is rendered from: its content in a folder, its image, and the bundle that must come out.

Edge: the project's releases, the places that content is looked for in, a temporary folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import Digest
from derive.errors import CheckFailed, InputErrors, expected_got
from derive.render.chosen import Chosen

if TYPE_CHECKING:
    from derive.derivations.model import Platform
    from derive.releases.document import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedContent:
    """A release laid out as a project in ``root``, which is gone when it is left."""

    root: Path
    name: str
    release: Release

    def chosen(self, named: Chosen) -> Chosen:
        """Return what is rendered of it: its recipe, whatever else the project has.

        Raises:
            InputErrors: when another recipe, or a shape that it does not have, is named.
        """
        recipe = self.release.recipe
        if named.recipe not in (None, recipe):
            raise InputErrors.one(f"release:{self.name} is of the recipe {recipe}", hint="leave --recipe out")
        if named.shape is not None and named.shape not in self.release.shapes:
            hint = f"it has {', '.join(sorted(self.release.shapes))}"
            raise InputErrors.one(f"release:{self.name} has no shape {named.shape!r}", hint=hint)
        return Chosen(recipe=recipe, shape=named.shape, site=named.site)

    def image(self, platform: Platform) -> Digest:
        """Return its image for a platform; raises InputErrors when it has none."""
        found = self.release.images.get(platform)
        if found is None:
            raise InputErrors.one(f"release:{self.name} has no image for {platform}")
        return found.digest

    def require_bundle(self, shape: str, bundle: str) -> None:
        """Refuse a rendering whose shape bundle is not the release's: raises CheckFailed with both."""
        recorded = self.release.shapes[shape].bundle
        if str(recorded) != bundle:
            hint = f"its engine was {self.release.engine.version}: render with that one, or audit it: derive audit"
            message = f"{shape} of release:{self.name} renders to another bundle with today's engine"
            raise CheckFailed(message, detail=expected_got(recorded, bundle), hint=hint)


@contextmanager
def released_content(root: Path, text: str, store: Path) -> Iterator[ReleasedContent]:
    """Lay a release out; raises InputErrors when there is none of that name, Missing when its content is nowhere."""
    from derive.operands import released
    from derive.why.released import find, laid_out

    known = find(root, released(text))
    with laid_out(known, root, store) as folder:
        yield ReleasedContent(root=folder, name=known.name, release=known.release)


def placed(content: ReleasedContent, chosen: Chosen, environ: Mapping[str, str]) -> tuple[str, Digest]:
    """Return which shape is meant, also where the site picks it, and the image that it runs."""
    from derive.releases.document import platform
    from derive.render.inputs import read_placed

    _, resolved, _ = read_placed(content.root, chosen, environ, content.release.recipe)
    return resolved.shape, content.image(platform(resolved.platform))
