# SPDX-License-Identifier: Apache-2.0
"""Releases and facts as values, for what is decided about them without any build.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.canonical import Digest, sha256
from derive.derivations.model import Platform
from derive.releases.document import Release, ReleasedEngine, ReleasedImage
from derive.releases.facts import Facts, ImageFacts, Realised

_ZERO = sha256(b"")


def release_of(image: Digest, *platforms: Platform) -> Release:
    """Return a release of one image, which is the same for each platform."""
    chosen: tuple[Platform, ...] = platforms or ("linux/amd64",)
    return Release(
        recipe="serve",
        recipe_digest=_ZERO,
        images={one: ReleasedImage(name="small", digest=image, derivation=_ZERO) for one in chosen},
        build_platform="linux/amd64",
        default_image="small",
        lock={},
        content={},
        recipes={},
        model=None,
        shapes={},
        engine=ReleasedEngine(digest=_ZERO, version="1", source=_ZERO, derivations={}),
    )


def facts_of(release: Release, derivations: Mapping[Digest, Realised]) -> Facts:
    """Return facts of a release, with the same derivations for each platform."""
    image = ImageFacts(config=_ZERO, layers=(), capabilities=(), derivations=derivations)
    return Facts(
        release=release.digest, images=dict.fromkeys(release.images, image), upstreams=(), kernels=(), engine={}
    )
