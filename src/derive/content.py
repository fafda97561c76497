# SPDX-License-Identifier: Apache-2.0
"""From TOML text to typed values: every problem at once, each with file and key path.

Core: no IO. Imports pydantic, and so stays off the paths where start-up time counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from derive.errors import Problem
from derive.net.places import hide_credentials
from derive.toml import key_path, parse_toml

__all__ = ["Content", "Keyed", "Some", "choice", "key_path", "parse_model", "parse_toml", "to_key"]

M = TypeVar("M", bound="Content")
T = TypeVar("T")


def to_key(field: str) -> str:
    """Write a Python field name as the key that stands in files."""
    return field.replace("_", "-")


class Content(BaseModel):
    """Base of everything read from a content file: frozen, and unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, str_strip_whitespace=False)


class Keyed(Content):
    """Content whose keys are written with hyphens."""

    model_config = ConfigDict(alias_generator=to_key, frozen=True, extra="forbid", strict=True)


def _some(values: T) -> T:
    if not values:
        raise ValueError("name at least one")
    return values


Some = AfterValidator(_some)
"""For tuples: not pydantic's own least length, which adds its complaint to that about a wrong element."""


def parse_model(
    model: type[M], data: Mapping[str, Any], where: str, prefix: str = ""
) -> tuple[M | None, list[Problem]]:
    """Build a typed value from parsed TOML, or say everything that is wrong with it."""
    try:
        # By way of JSON, whose arrays may be tuples under strict rules; a date is read as its text.
        return model.model_validate_json(json.dumps(data, default=str)), []
    except ValidationError as error:
        return None, [_problem(item, where, prefix) for item in error.errors()]


def choice(name: str) -> str:
    """Return the tag of one alternative of a union; no key path shows it."""
    return f"<{name}>"


_MESSAGES = {
    "missing": "this key is missing",
    "extra_forbidden": "unknown key",
}


def _got(value: Any) -> tuple[str, ...]:
    match value:
        case {"decimal": text, **others} if not others:
            return (f"got       {text}",)
        case dict():
            return ()
        case _:
            return (f"got       {hide_credentials(repr(value))}"[:200],)


def _problem(item: Any, where: str, prefix: str) -> Problem:
    location = tuple(part for part in item["loc"] if not (isinstance(part, str) and part.startswith(("<", "[key]"))))
    path = key_path(location, prefix)
    message = _MESSAGES.get(item["type"])
    detail: tuple[str, ...] = ()
    if message is None:
        message = item["msg"].removeprefix("Value error, ")
        message = message[:1].lower() + message[1:]
        detail = _got(item["input"])
    return Problem(where=f"{where}: {path}" if path else where, message=message, detail=detail)
