# SPDX-License-Identifier: Apache-2.0
"""What an image is made upon: another image of the project, or one that is locked; both known by a manifest's digest.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from derive.canonical import Digest
from derive.derivations import steps
from derive.derivations.checks import set_problems
from derive.derivations.model import BuiltInput, Derivation, Input, Platform
from derive.derivations.scope import Names, Scope, absent
from derive.derivations.upstreams import fetch_oci, oci_tree
from derive.errors import Problem
from derive.images.declarations import ConfigDecl, ImageDecl, LockedBase, ModeDecl
from derive.lock.upstreams.entries import OciEntry, UpstreamsLock


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """The image that another is made upon.

    ``manifest`` is how the image step takes it; ``root`` its files as one tree; ``pinned`` the digest that it is said
    to have, if one is.
    """

    name: str
    manifest: Input
    root: Derivation
    pinned: Digest | None = None

    @property
    def by_facts(self) -> bool:
        """Whether the tree's digest is taken of its facts, as that of one that is large is."""
        return self.root.arguments.get("identity") == "facts"

    @classmethod
    def of_image(cls, made: Derivation, digest: str) -> Below:
        """Return an image of the project as one to be made upon; ``digest`` is empty where it is followed."""
        return cls(
            name=made.name,
            manifest=BuiltInput(made),
            root=made.inputs["root"].derivation,
            pinned=Digest.parse(digest) if digest else None,
        )


def fetched_base(scope: Scope, base: LockedBase, host: Platform, where: str) -> Below:
    """Return a locked image as one to be made upon.

    Raises:
        InputErrors: when it is not locked for that platform.
    """
    lock = scope.locks[base.set]
    assert isinstance(lock, UpstreamsLock)
    entry = lock.upstream(base.oci, OciEntry, where=where)
    fetch = fetch_oci(entry, host, where=where)
    return Below(name=entry.name, manifest=steps.reference(fetch), root=oci_tree(entry, host, where=where))


def image_parts(scope: Scope, image: str) -> list[str]:
    """Return the names of the derivations that an image's layers are made of, and those of its bases in the project."""
    chain = [scope.images[one] for one in (image, *_bases(image, scope))]
    return [part for one in chain for layer in one.layers for part in layer.parts]


def locked_bases(scope: Scope, image: str) -> list[str]:
    """Return the names of the lock sets from which an image, or a base of it, takes its base."""
    chain = [scope.images[one].base for one in (image, *_bases(image, scope))]
    return [base.set for base in chain if isinstance(base, LockedBase)]


def upon(name: str, scope: Scope) -> ImageDecl:
    """Return an image's declaration with what its bases of this project say beside their layers.

    What a locked base says is taken by the image step, once that is there.
    """
    modes: dict[str, ModeDecl] = {}
    config = ConfigDecl()
    for one in reversed([name, *_bases(name, scope)]):
        declared = scope.images[one]
        modes |= {"/" + path.strip("/"): mode for path, mode in declared.modes.items()}
        config = _inherited(config, declared.config)
    return scope.images[name].model_copy(update={"modes": modes, "config": config})


def _inherited(base: ConfigDecl, own: ConfigDecl) -> ConfigDecl:
    """Return what :func:`derive.images.base.inherited` makes of the configs that two declarations become."""
    values = {key: getattr(base, key) for key in base.model_fields_set}
    if own.entrypoint:
        values.pop("command", None)
    values |= {key: getattr(own, key) for key in own.model_fields_set if getattr(own, key)}
    for key in ("environment", "labels"):
        values[key] = {**getattr(base, key), **getattr(own, key)}
    return ConfigDecl.model_construct(_fields_set=set(values), **values)


def base_problems(scope: Scope, known: Names) -> Iterator[Problem]:
    """Yield what is wrong with what images are made upon: names, platforms, digests, and images upon themselves."""
    for name, image in scope.images.items():
        where = f"images/{name}.toml: base"
        if isinstance(image.base, LockedBase):
            yield from _locked_problems(scope, image.base, where)
        elif image.base is not None:
            yield from _named_problems(scope, known, name, image.base, where)


def _locked_problems(scope: Scope, base: LockedBase, where: str) -> Iterator[Problem]:
    yield from set_problems(scope, base.set, f"{where}.set", UpstreamsLock)
    lock = scope.locks.get(base.set)
    if isinstance(lock, UpstreamsLock):
        named = {entry.name for entry in lock.upstreams if entry.type == OciEntry.type}
        if base.oci not in named:
            yield absent(f"{where}.oci", "oci upstream in the lock", base.oci, named)


def _named_problems(scope: Scope, known: Names, name: str, text: str, where: str) -> Iterator[Problem]:
    other, _, digest = text.partition("@")
    if other not in known.images:
        yield absent(where, "image", other, known.images)
        return
    platforms = scope.images[name].platforms
    if digest and len(platforms) > 1:
        hint = "leave the digest out, or write an image file for each platform"
        yield Problem(where=where, message="a digest is of one platform, and this image has several", hint=hint)
    if other not in scope.images:
        return  # what is wrong there is said there
    bases = _bases(name, scope)
    if name in bases:
        yield Problem(where=where, message=f"an image upon itself: {' -> '.join([name, *bases])}")
    lacking = [one for one in platforms if one not in scope.images[other].platforms]
    if lacking:
        yield Problem(where=where, message=f"{other} is not made for {', '.join(lacking)}")


def _bases(name: str, scope: Scope) -> list[str]:
    """Return the images of the project that one is made upon, the nearest first; in a loop the last comes twice."""
    found: list[str] = []
    while (image := scope.images.get(name)) is not None and isinstance(image.base, str):
        name = image.base.partition("@")[0]
        is_loop = name in found
        if name not in scope.images:
            break
        found.append(name)
        if is_loop:
            break
    return found
