# SPDX-License-Identifier: Apache-2.0
"""What stands in ``images/*.toml``, as typed values. The keys are explained on docs/builders/image.md.

Core: no IO. Imports pydantic.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator

from derive.content import Keyed, Some, choice, parse_model, parse_toml
from derive.errors import Problem
from derive.trees.listing import check_path

ImagePlatform: TypeAlias = Literal["linux/amd64", "linux/arm64"]


def _mode(text: str) -> str:
    if not re.fullmatch("[0-7]{4}", text):
        raise ValueError("not permission bits in octal, such as 0755")
    if text[0] not in "01":
        raise ValueError("set-user-id and set-group-id bits are never written")
    return text


class ModeDecl(Keyed):
    """Owner and permission bits of one path in the image; bits in octal, as text."""

    mode: Annotated[str, AfterValidator(_mode)]
    uid: int = Field(default=0, ge=0, le=65535)
    gid: int = Field(default=0, ge=0, le=65535)


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"named twice: {', '.join(twice)}")
    return names


def _pattern(text: str) -> str:
    if not text or text.startswith("/"):
        raise ValueError("not a pattern of paths, which do not begin with a slash")
    return text


class SplitDecl(Keyed):
    """How a layer of many packages becomes many layers.

    Packages in ``own`` have layers of their own; the others are spread over ``shared`` layers. Of wheels in ``own``,
    files whose path fits a pattern of ``native`` have a layer apart.
    """

    own: Annotated[tuple[str, ...], AfterValidator(_distinct)] = ()
    shared: int = Field(default=0, ge=0, le=99)
    native: tuple[Annotated[str, AfterValidator(_pattern)], ...] = ()


class LayerDecl(Keyed):
    """One layer: the union of some derivations' trees; or, with ``split``, the layers of one tree of packages."""

    name: str
    parts: Annotated[tuple[str, ...], Some] = Field(alias="from")
    split: SplitDecl | None = None

    @field_validator("parts")
    @classmethod
    def _parts_are_distinct(cls, parts: tuple[str, ...]) -> tuple[str, ...]:
        return _distinct(parts)


class ConfigDecl(Keyed):
    """What a container of the image is started with."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    user: str = ""
    working_folder: str = "/"
    labels: dict[str, str] = Field(default_factory=dict)
    stop_signal: str | None = None


class EncodingDecl(Keyed):
    """How layers are compressed."""

    name: Literal["gzip-members/1", "gzip-members/2"] = "gzip-members/1"
    level: int = Field(default=6, ge=1, le=12)


_PROVIDERS = {"source": "derivation", "patch": "patch", "wheel": "wheel", "package": "package"}


def _path(text: str) -> str:
    if not text.startswith("/") or text == "/":
        raise ValueError("not the absolute path of a file in the image")
    check_path(text[1:].encode())
    return text


class CapabilityDecl(Keyed):
    """What an image can do, and which derivation, patch file, wheel or Debian package that is in it gives it that.

    ``file`` is the path of a file or link that must be in the image: what of a wheel or package it is. ``environment``
    are variables that the image's configuration must set, without which it does not do it.
    """

    source: str | None = Field(default=None, alias="from")
    patch: str | None = None
    wheel: str | None = None
    package: str | None = None
    file: Annotated[str, AfterValidator(_path)] | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    doc: str = Field(min_length=1)

    @model_validator(mode="after")
    def _one_provider(self) -> CapabilityDecl:
        if sum(getattr(self, key) is not None for key in _PROVIDERS) != 1:
            raise ValueError("name one provider: with the key from, patch, wheel or package")
        if self.file is None and (self.wheel or self.package):
            raise ValueError("say with the key file what of the wheel or package it is")
        return self

    @property
    def provider(self) -> tuple[str, str]:
        """Kind and name of what gives the capability: ``derivation``, ``patch``, ``wheel`` or ``package``."""
        return next((kind, value) for key, kind in _PROVIDERS.items() if (value := getattr(self, key)) is not None)


class LockedBase(Keyed):
    """An image of a lock set of upstreams, by the digests that are locked."""

    set: str
    oci: str


_BASE = re.compile(r"[a-z0-9][a-z0-9._+-]*(@sha256:[0-9a-f]{64})?")


def _base(text: str) -> str:
    if not _BASE.fullmatch(text):
        raise ValueError("not an image of this project: NAME, or NAME@sha256:<64 hex>")
    return text


def _base_kind(value: Any) -> str | None:
    if isinstance(value, str):
        return choice("name")
    return choice("locked") if isinstance(value, dict) else None


BaseDecl: TypeAlias = Annotated[
    Annotated[str, AfterValidator(_base), Tag(choice("name"))] | Annotated[LockedBase, Tag(choice("locked"))],
    Discriminator(
        _base_kind,
        custom_error_type="base_kind",
        custom_error_message="name an image of this project, or with the keys set and oci one that is locked",
    ),
]


class ImageDecl(Keyed):
    """One image file. ``base`` is the image that its layers are laid upon, where it is made upon another."""

    platforms: Annotated[tuple[ImagePlatform, ...], Some]
    default_platform: ImagePlatform
    base: BaseDecl | None = None
    layers: Annotated[tuple[LayerDecl, ...], Some] = Field(max_length=100)
    modes: dict[str, ModeDecl] = Field(default_factory=dict)
    capabilities: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")], CapabilityDecl] = Field(
        default_factory=dict
    )
    config: ConfigDecl = ConfigDecl()
    encoding: EncodingDecl = EncodingDecl()

    @model_validator(mode="after")
    def _default_is_declared(self) -> ImageDecl:
        if self.default_platform not in self.platforms:
            raise ValueError(f"default-platform {self.default_platform} is not among platforms")
        names = [layer.name for layer in self.layers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two layers of one name: {', '.join(twice)}")
        return self


def parse_image(data: bytes, file: str) -> tuple[ImageDecl | None, list[Problem]]:
    """Read one image file."""
    table, problems = parse_toml(data, file)
    if table is None:
        return None, problems
    return parse_model(ImageDecl, table, file)
