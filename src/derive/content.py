# SPDX-License-Identifier: Apache-2.0
"""From TOML text to typed values: every problem at once, each with file and key path.

Core: no IO. Imports pydantic, and so stays off the paths where start-up time counts.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from derive.errors import Problem
from derive.net.places import hide_credentials

_MAX_INTEGER = 2**53

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


def parse_toml(data: bytes, file: str) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Parse TOML; a float becomes ``{"decimal": <its text>}``, since no float enters a hashed document."""
    try:
        return _with_decimals(tomllib.loads(data.decode("utf-8"), parse_float=_decimal)), []
    except UnicodeDecodeError as error:
        return None, [Problem(where=file, message=f"not valid TOML: not UTF-8, at byte {error.start}")]
    except (ValueError, RecursionError) as error:
        return None, [Problem(where=file, message=f"not valid TOML: {error}")]


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


def key_path(location: tuple[int | str, ...], prefix: str = "") -> str:
    """Write a key path as it reads in TOML: ``layers[2].from``, with odd keys quoted."""
    text = prefix
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part.replace("-", "").replace("_", "").isalnum() and part.isascii()
            text += ("." if text else "") + (part if plain else f'"{part}"')
    return text


class _Decimal(str):
    """The source text of a float: tomllib takes no table from whoever parses floats."""

    __slots__ = ()


def _decimal(text: str) -> _Decimal:
    if "inf" in text or "nan" in text:
        raise ValueError(f"{text} is no number that a document can hold")
    return _Decimal(text)


def _with_decimals(value: Any) -> Any:
    if isinstance(value, _Decimal):
        return {"decimal": str(value)}
    if isinstance(value, dict):
        return {key: _with_decimals(item) for key, item in value.items()}
    if isinstance(value, int) and not -_MAX_INTEGER < value < _MAX_INTEGER:
        raise ValueError(f"{value} is no number that a document can hold: it is beyond 2^53")
    return [_with_decimals(item) for item in value] if isinstance(value, list) else value


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
