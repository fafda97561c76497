# SPDX-License-Identifier: Apache-2.0
"""What stands in ``images/*.toml``, as typed values. The keys are explained on docs/builders/image.md.

Core: no IO. Imports pydantic.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, field_validator, model_validator

from derive.content import Keyed, Some, parse_model, parse_toml
from derive.errors import Problem

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


class LayerDecl(Keyed):
    """One layer: the union of some derivations' trees."""

    name: str
    parts: Annotated[tuple[str, ...], Some] = Field(alias="from")

    @field_validator("parts")
    @classmethod
    def _parts_are_distinct(cls, parts: tuple[str, ...]) -> tuple[str, ...]:
        twice = sorted({part for part in parts if parts.count(part) > 1})
        if twice:
            raise ValueError(f"named twice: {', '.join(twice)}")
        return parts


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

    name: Literal["gzip-members/1"] = "gzip-members/1"
    level: int = Field(default=6, ge=1, le=12)


class ImageDecl(Keyed):
    """One image file."""

    platforms: Annotated[tuple[ImagePlatform, ...], Some]
    default_platform: ImagePlatform
    layers: Annotated[tuple[LayerDecl, ...], Some] = Field(max_length=100)
    modes: dict[str, ModeDecl] = Field(default_factory=dict)
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
