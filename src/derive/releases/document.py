# SPDX-License-Identifier: Apache-2.0
"""The release document: everything that decides what one recipe deploys, whose SHA-256 is the release digest.

Core: no IO. The document is specified on docs/formats/release.md.

Not in it, by name and with the reason: the release's own name, who made it, when, from which commit, and the release
before it. They say how a release came to be, and stand in its record; two people who derive the same content have the
same release digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from derive.canonical import CanonicalError, Digest, Json, decode, encode, sha256
from derive.derivations.model import PLATFORMS, Platform
from derive.images.documents import DocumentError, digest, exact, fields, mapping, text, texts

TAG = "release/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedImage:
    """An image of a platform: its name in ``images/``, its manifest's digest, and the id of its derivation."""

    name: str
    digest: Digest
    derivation: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedShape:
    """A shape: the digest of its bundle, and the capabilities it awaits where it is not ``deployable``."""

    bundle: Digest
    deployable: bool
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedEngine:
    """The engine that derived it: the digest and NAR hash of its source, and the derivation of its root by platform."""

    digest: Digest
    version: str
    source: Digest
    derivations: Mapping[Platform, Digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release. Mappings of files are from a path below the project to the SHA-256 of the file's bytes.

    ``recipes`` are the digests of the recipes as parsed; ``content`` has every other file that decides a byte, and
    ``lock`` those of ``lock/``. ``model`` is the pin as the shape bundle writes it, None for a recipe without a model.
    """

    recipe: str
    recipe_digest: Digest
    images: Mapping[Platform, ReleasedImage]
    build_platform: Platform
    default_image: str
    lock: Mapping[str, Digest]
    content: Mapping[str, Digest]
    recipes: Mapping[str, Digest]
    model: Mapping[str, Json] | None
    shapes: Mapping[str, ReleasedShape]
    engine: ReleasedEngine

    def document(self) -> dict[str, Json]:
        """Return the canonical document."""
        return {
            "derive": TAG,
            "recipe": {"name": self.recipe, "digest": str(self.recipe_digest)},
            "images": {
                platform: {"name": one.name, "digest": str(one.digest), "derivation": one.derivation.hex}
                for platform, one in self.images.items()
            },
            "settings": {"build-platform": self.build_platform, "default-image": self.default_image},
            "lock": {path: found.hex for path, found in self.lock.items()},
            "content": {path: found.hex for path, found in self.content.items()},
            "recipes": {name: str(found) for name, found in self.recipes.items()},
            "model": self.model,
            "shapes": {
                name: {"bundle": str(one.bundle), "deployable": one.deployable, "needs": list(one.needs)}
                for name, one in self.shapes.items()
            },
            "engine": {
                "digest": str(self.engine.digest),
                "version": self.engine.version,
                "source": f"nar:{self.engine.source}",
                "derivations": {platform: found.hex for platform, found in self.engine.derivations.items()},
            },
        }

    def encoded(self) -> bytes:
        """Return the canonical bytes: what ``release.json`` holds."""
        return encode(self.document())

    @property
    def digest(self) -> Digest:
        """The release digest."""
        return sha256(self.encoded())


def read_release(data: bytes) -> Release:
    """Read ``release.json``; raises DocumentError (a ValueError) naming the key, also where bytes are not canonical."""
    try:
        release = _release(fields(decode(data), tag=TAG, keys=_KEYS))
    except CanonicalError as error:
        raise DocumentError(str(error)) from error
    if release.encoded() != data:
        raise DocumentError("not the canonical bytes of this release")
    return release


_KEYS = ("recipe", "images", "settings", "lock", "content", "recipes", "model", "shapes", "engine")


def _release(found: Mapping[str, Json]) -> Release:
    recipe = exact(found["recipe"], keys=("name", "digest"), what="recipe")
    settings = exact(found["settings"], keys=("build-platform", "default-image"), what="settings")
    return Release(
        recipe=text(recipe, "name"),
        recipe_digest=digest(recipe, "digest"),
        images={platform(key): _image(one) for key, one in mapping(found["images"], "images").items()},
        build_platform=platform(text(settings, "build-platform")),
        default_image=text(settings, "default-image"),
        lock=_hexes(found, "lock"),
        content=_hexes(found, "content"),
        recipes={name: Digest.parse(str(one)) for name, one in mapping(found["recipes"], "recipes").items()},
        model=None if found["model"] is None else mapping(found["model"], "model"),
        shapes={name: _shape(one) for name, one in mapping(found["shapes"], "shapes").items()},
        engine=_engine(exact(found["engine"], keys=("digest", "version", "source", "derivations"), what="engine")),
    )


def platform(name: str) -> Platform:
    """Return a platform by its name; raises DocumentError for every other text."""
    if name not in PLATFORMS or name == "any":
        raise DocumentError(f"no platform: {name!r}")
    return cast("Platform", name)


def _image(value: Json) -> ReleasedImage:
    found = exact(value, keys=("name", "digest", "derivation"), what="images")
    derivation = Digest(text(found, "derivation"))
    return ReleasedImage(name=text(found, "name"), digest=digest(found, "digest"), derivation=derivation)


def _shape(value: Json) -> ReleasedShape:
    found = exact(value, keys=("bundle", "deployable", "needs"), what="shapes")
    if not isinstance(found["deployable"], bool):
        raise DocumentError("shapes: deployable: neither true nor false")
    return ReleasedShape(bundle=digest(found, "bundle"), deployable=found["deployable"], needs=texts(found, "needs"))


def _engine(found: Mapping[str, Json]) -> ReleasedEngine:
    return ReleasedEngine(
        digest=digest(found, "digest"),
        version=text(found, "version"),
        source=Digest.parse(text(found, "source").removeprefix("nar:")),
        derivations={platform(key): one for key, one in _hexes(found, "derivations").items()},
    )


def _hexes(found: Mapping[str, Json], key: str) -> dict[str, Digest]:
    return {name: Digest(str(value)) for name, value in mapping(found[key], key).items()}
