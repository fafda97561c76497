# SPDX-License-Identifier: Apache-2.0
"""From a release, a shape and a site to what is to run: the release's own content rendered, and its bundle required.

Edge: the project's releases, the places that content is looked for in, a temporary folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from derive.deploy.model import Served, Target
from derive.errors import InputErrors, expected_got
from derive.fabric.places import find_site, read_site
from derive.operands import is_digest
from derive.render.chosen import Chosen

if TYPE_CHECKING:
    from derive.canonical import Digest
    from derive.derivations.model import Platform
    from derive.fabric.rule import SiteInput
    from derive.recipes.resolved import Resolved
    from derive.releases.find import Known
    from derive.render.inputs import Inputs

SITE_HINT = "write one: derive site init; or name it: --site FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aimed:
    """A target, the release that it is of, the site with its file, and what a person should know of its rendering."""

    target: Target
    known: Known
    site: SiteInput
    notes: tuple[str, ...]


def aim(root: Path, operand: str, chosen: Chosen, environ: Mapping[str, str], store: Path) -> Aimed:
    """Render a release's content at the site.

    ``operand`` is a release's name or digest, or the digest of an image that exactly one release has. Without a shape
    in ``chosen`` it is the site's pick, else the recipe's own default.

    Raises:
        InputErrors: when there is no such release or shape, no site file, or the site or the content is wrong.
        CheckFailed: when it renders to another bundle with today's engine.
        Missing: when the release's content is nowhere.
    """
    from derive.render.released import ReleasedContent
    from derive.render.service import render
    from derive.why.released import laid_out

    known = find_deployed(root, operand)
    site = find_site(environ, chosen.site)
    if site is None:
        raise InputErrors.one("no site file: nothing says which machines are meant", hint=SITE_HINT)
    with laid_out(known, root, store) as folder:
        content = ReleasedContent(root=folder, name=known.name, release=known.release)
        wanted = content.chosen(chosen)
        rendered = render(
            folder, wanted, environ, lambda inputs: content.image(_platform(inputs)), known.release.recipe
        )
        bundle, inputs = rendered.bundle, rendered.inputs
        _require_released(known, inputs.resolved)
        _require_image(operand, bundle.image, known, inputs.resolved)
        content.require_bundle(inputs.resolved.shape, str(bundle.shape))
    served = Served(
        release=known.name,
        release_digest=known.digest,
        recipe=known.release.recipe,
        shape=inputs.resolved.shape,
        image=bundle.image,
        shape_bundle=bundle.shape,
        launch_bundle=bundle.launch,
    )
    target = Target(served=served, bundle=bundle)
    return Aimed(target=target, known=known, site=read_site(site), notes=inputs.notes)


def find_deployed(root: Path, operand: str) -> Known:
    """Return the release that a text names: also by the digest of an image, where exactly one release has that.

    Raises:
        InputErrors: when none or several are meant. Also as :func:`derive.releases.find.find_release`.
    """
    from derive.releases.find import find_release, known_releases

    kind, _, rest = operand.rpartition(":")
    prefix = rest if kind in ("", "image", "sha256", "image:sha256") else ""
    if kind in ("release", "release:sha256") or not is_digest(prefix):
        return find_release(root, operand)
    every = known_releases(root)
    by_release = [one for one in every if one.digest.hex.startswith(prefix) or one.name == prefix]
    if by_release and not kind.startswith("image"):
        return find_release(root, operand)
    by_image = [one for one in every if any(i.digest.hex.startswith(prefix) for i in one.release.images.values())]
    if len(by_image) == 1:
        return by_image[0]
    if by_image:
        detail = [f"may be    {one.name}  release:{one.digest.hex}" for one in by_image]
        raise InputErrors.one(f"several releases have the image {prefix}", detail=detail, hint="name the release")
    raise InputErrors.one(f"no release and no image of one has the digest {prefix}", hint="see: derive releases --all")


def _platform(inputs: Inputs) -> Platform:
    from derive.releases.document import platform

    return platform(inputs.resolved.platform)


def _require_image(operand: str, image: Digest, known: Known, resolved: Resolved) -> None:
    """Refuse a release that was named by an image of it which the shape does not run: of another platform."""
    kind, _, prefix = operand.rpartition(":")
    named = [
        one.digest for one in known.release.images.values() if is_digest(prefix) and one.digest.hex.startswith(prefix)
    ]
    if named and image not in named and (kind.startswith("image") or not known.digest.hex.startswith(prefix)):
        message = f"{resolved.shape} runs the image for {resolved.platform}, and that is another"
        raise InputErrors.one(message, detail=expected_got(image, named[0]), hint=f"name the release: {known.name}")


def _require_released(known: Known, resolved: Resolved) -> None:
    """Refuse a shape that the release does not have: one that the site picked, and that came later."""
    if resolved.shape not in known.release.shapes:
        hint = f"it has {', '.join(sorted(known.release.shapes))}: say --shape"
        raise InputErrors.one(f"release:{known.name} has no shape {resolved.shape!r}", hint=hint)
