# SPDX-License-Identifier: Apache-2.0
"""What a person may write for a thing: ``.``, a digest, a name, or ``image:``, ``drv:``, ``tree:``, ``release:`` + one.

What nodes are told has forms of its own: ``shape:``, ``recipe:``, ``site:``, and ``bundle:`` with a rendered folder.

Core: no IO. What an operand names is found by whoever has a project or a store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from derive.derivations.model import PLATFORMS, Platform
from derive.errors import InputErrors

NameKind: TypeAlias = Literal["any", "image", "drv"]
DigestKind: TypeAlias = Literal["any", "image", "drv", "tree"]
LaunchKind: TypeAlias = Literal["shape", "recipe", "site", "bundle"]

_SHORTEST = 12
_HEX = re.compile(r"[0-9a-f]+")
_KINDS = ("image", "drv", "tree", "sha256", "release")
_RELEASE = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_LAUNCH_KINDS = ("shape", "recipe", "site", "bundle")


@dataclass(frozen=True, slots=True)
class Working:
    """``.``: what the working tree makes of the thing that the other operand names."""

    def __str__(self) -> str:
        return "."


@dataclass(frozen=True, slots=True)
class Named:
    """A name; ``platform`` None where none was said."""

    name: str
    kind: NameKind = "any"
    platform: Platform | None = None

    def __str__(self) -> str:
        kind = "" if self.kind == "any" else f"{self.kind}:"
        return f"{kind}{self.name}" + (f"@{self.platform}" if self.platform else "")


@dataclass(frozen=True, slots=True)
class ByDigest:
    """A digest, or its first 12 or more digits: of a derivation, tree, image or blob, or whatever has it."""

    prefix: str
    kind: DigestKind = "any"

    def __str__(self) -> str:
        return f"{'sha256' if self.kind == 'any' else self.kind}:{self.prefix}"


@dataclass(frozen=True, slots=True)
class Released:
    """A release: its name, or its digest in hex, or the first 12 or more digits of that.

    Where an image is meant it is the release's for ``platform``; None: its only one, or the one that its file names.
    """

    name: str
    platform: Platform | None = None

    def __str__(self) -> str:
        return f"release:{self.name}" + (f"@{self.platform}" if self.platform else "")


Operand: TypeAlias = Working | Named | ByDigest | Released


@dataclass(frozen=True, slots=True)
class Launching:
    """What nodes are told: a shape (of ``recipe``, None where any may be meant), a recipe, a site, a rendered folder.

    ``name`` is that of the shape; of the others also the path of a file or folder.
    """

    kind: LaunchKind
    name: str
    recipe: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.recipe}/{self.name}" if self.recipe else f"{self.kind}:{self.name}"


def parse_launching(text: str) -> Launching | None:
    """Read an operand of what nodes are told; None where the text is of another kind.

    Raises:
        InputErrors: when it names nothing.
    """
    kind, separator, rest = text.partition(":")
    if not separator or kind not in _LAUNCH_KINDS:
        return None
    recipe, slash, name = rest.rpartition("/") if kind == "shape" else ("", "", rest)
    if not name or (slash and not recipe):
        hint = {"shape": "write shape:NAME or shape:RECIPE/NAME", "bundle": "write bundle:FOLDER"}.get(kind)
        raise InputErrors.one(f"{_shown(text)} names nothing", hint=hint or f"write {kind}:NAME or {kind}:FILE")
    return Launching(cast("LaunchKind", kind), name, recipe or None)


def is_digest(text: str) -> bool:
    """Say whether a text can be a digest in hex, or the beginning of one that is long enough to mean one thing."""
    return _SHORTEST <= len(text) <= 64 and _HEX.fullmatch(text) is not None


def parse_operand(text: str, platform: Platform | None = None) -> Operand:
    """Read an operand; ``platform`` is what a name without one is for.

    Raises:
        InputErrors: on an unknown kind or platform, a digest that is too short, or nothing.
    """
    if text == ".":
        return Working()
    kind, separator, rest = text.partition(":")
    if not separator:
        return ByDigest(text) if is_digest(text) else _named(text, text, "any", platform)
    if kind not in _KINDS:
        hint = "write a name, image:NAME, drv:NAME, tree:DIGEST, release:NAME or a digest"
        raise InputErrors.one(f"{_shown(text)} is no operand", hint=hint)
    if kind == "release":
        return _released(text, rest, platform)
    plain = rest.removeprefix("sha256:")
    if is_digest(plain):
        return ByDigest(plain, "any" if kind == "sha256" else cast("DigestKind", kind))
    if kind in ("tree", "sha256") or plain != rest:
        hint = f"give {_SHORTEST} or more hex digits"
        raise InputErrors.one(f"{_shown(text)} is no digest, nor the beginning of one", hint=hint)
    return _named(text, rest, cast("NameKind", kind), platform)


def released(text: str, platform: Platform | None = None) -> Released:
    """Read an operand that must be a release: ``release:NAME``, or its name or digest alone; raises InputErrors."""
    return _released(text, text.removeprefix("release:"), platform)


def _released(text: str, rest: str, platform: Platform | None) -> Released:
    name, platform = _platform(text, rest, platform)
    name = name.removeprefix("sha256:")
    if not _RELEASE.fullmatch(name) and not is_digest(name):
        hint = "releases are named in lower-case letters, digits, dots and dashes: derive releases lists them"
        raise InputErrors.one(f"{_shown(text)} names no release", hint=hint)
    return Released(name, platform)


def _platform(text: str, rest: str, platform: Platform | None) -> tuple[str, Platform | None]:
    """Cut ``@linux/arm64`` off a name; what stands there is meant before what was said otherwise."""
    name, separator, said = rest.rpartition("@")
    if not separator:
        return rest, platform
    if said in PLATFORMS:
        return name, said
    hint = f"write {name}@linux/amd64 or {name}@linux/arm64"
    raise InputErrors.one(f"{_shown(text)} names no platform", detail=[f"got       {_shown(said)}"], hint=hint)


def _named(text: str, rest: str, kind: NameKind, platform: Platform | None) -> Named:
    name, platform = _platform(text, rest, platform)
    if not name:
        raise InputErrors.one(f"{_shown(text)} names nothing", hint="what there is: derive show")
    # An argument may hold bytes that are no text, which no name has.
    return Named(name.encode("utf-8", "replace").decode(), kind, platform)


def _shown(text: str) -> str:
    return repr(text.encode("utf-8", "backslashreplace").decode())
