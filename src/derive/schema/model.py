# SPDX-License-Identifier: Apache-2.0
"""The argument schema of an image, as it is pinned in ``recipes/<image>.schema.json`` (docs/arguments.md).

Core: no IO. Standard library only: whoever renders checks, and pays for no parser.

A type is a text (``int``, ``float``, ``str``, ``bool``, ``none``, ``list``, ``dict``, ``any``) or a mapping with one
key: ``choice`` (values), ``enum`` or ``config`` (a name), ``list`` or ``dict`` (types of elements or values).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from derive.canonical import Json
from derive.errors import InputErrors, Problem
from derive.schema.document import entry_faults

TAG = "argument-schema/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of the program. ``names`` are all its forms, ``negative`` those that switch a boolean one off.

    ``type`` is how its value is read: ``flag``, ``boolean``, ``int``, ``float``, ``text``, ``size`` (a number, with a
    suffix if one likes), ``size-or-auto``, ``json``, ``json-or-text``, ``config``. ``choices`` are all that are taken;
    ``known`` all that the program has of itself, ``registered`` if it takes no others unless a plugin brings them.
    """

    name: str
    names: tuple[str, ...]
    type: str
    negative: tuple[str, ...] = ()
    choices: tuple[Json, ...] | None = None
    known: tuple[str, ...] | None = None
    registered: bool = False
    enum: str | None = None
    config: str | None = None
    nargs: str | int | None = None
    repeated: bool = False
    deprecated: bool = False
    bounds: Mapping[str, Json] = field(default_factory=dict)
    default: Json = None

    @property
    def long(self) -> tuple[str, ...]:
        """The long names, without dashes."""
        return tuple(name[2:] for name in self.names if name.startswith("--"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key of a JSON value.

    ``given`` is false for what only the program sets; of a ``converted`` one other forms are taken too.
    """

    types: tuple[Json, ...]
    default: Json = None
    given: bool = True
    converted: bool = False
    bounds: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The keys of a JSON value; ``is_open`` when others are taken, or passed over."""

    keys: Mapping[str, ConfigKey]
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Enum:
    """An enumeration: what its members are called, and their values where these can be written."""

    names: tuple[str, ...]
    values: tuple[Json, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable of the environment: who reads it, in which file; what its text is turned into, where that is known.

    ``kind`` is ``text``, ``int``, ``float``, ``json``, ``choice`` or ``choices`` (several, with commas).
    """

    name: str
    readers: Mapping[str, str]
    kind: str = "text"
    choices: tuple[str, ...] = ()
    exact: bool = True
    default: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """All that an image's programs take. ``parts`` are the derivations that it was read by, ``readers`` versions.

    ``read`` are the readers of each variable with a file of each, ``own`` what is known of the program's own variables:
    there are thousands, of which few are asked for.
    """

    image: str
    platform: str
    program: str
    derivation: str
    content: str
    parts: Mapping[str, str]
    readers: Mapping[str, str]
    options: Mapping[str, Option]
    configs: Mapping[str, Config]
    enums: Mapping[str, Enum]
    read: Mapping[str, Mapping[str, str]]
    own: Mapping[str, Mapping[str, Any]]

    def variable(self, name: str) -> Variable | None:
        """Return a variable, or None where nothing reads one of that name."""
        readers = self.read.get(name)
        return None if readers is None else _variable(name, readers, self.own.get(name, {}))

    @property
    def variables(self) -> dict[str, Variable]:
        """All variables by name."""
        return {name: _variable(name, readers, self.own.get(name, {})) for name, readers in self.read.items()}


def load_schema(data: bytes, file: str = "schema.json") -> Schema:
    """Read a pinned schema.

    Raises:
        InputErrors: when it is no document of this format.
    """
    try:
        document = json.loads(data.decode("ascii"), parse_float=_no_float)
        if not isinstance(document, dict) or document.get("derive") != TAG:
            raise _wrong(file, f"not a document of the kind {TAG}")
        malformed = next(entry_faults(document), None)
        if malformed is not None:
            raise _wrong(file, f"not as derive writes it: {malformed}")
        return _schema(document)
    except json.JSONDecodeError as error:
        raise _wrong(file, f"cannot be read as JSON: line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise _wrong(file, "cannot be read as JSON: nested too deeply") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _wrong(file, f"not as derive writes it: {error}") from error


def _no_float(text: str) -> Json:
    raise ValueError(f"a float: {text}")


def _wrong(file: str, message: str) -> InputErrors:
    hint = f"write it again: derive schema {file.rpartition('/')[2].removesuffix('.schema.json')} --write"
    return InputErrors([Problem(where=file, message=message, hint=hint)])


def _schema(document: Mapping[str, Any]) -> Schema:
    return Schema(
        image=document["image"],
        platform=document["platform"],
        program=document["program"],
        derivation=document["derivation"],
        content=document["content"],
        parts=document["parts"],
        readers=document["readers"],
        options={name: _option(name, one) for name, one in document["options"].items()},
        configs={
            name: Config(
                keys={key: _key(value) for key, value in one["fields"].items()}, is_open=one["extra"] != "forbid"
            )
            for name, one in document["configs"].items()
        },
        enums={
            name: Enum(names=tuple(one["names"]), values=tuple(one["values"]))
            for name, one in document["enums"].items()
        },
        read=document["variables"],
        own=document["own"],
    )


def _option(name: str, one: Mapping[str, Any]) -> Option:
    choices, known = one.get("choices"), one.get("known")
    return Option(
        name=name,
        names=tuple(one["names"]),
        type=one["type"],
        negative=tuple(one.get("negative", ())),
        choices=None if choices is None else tuple(choices),
        known=None if known is None else tuple(known),
        registered=one.get("registered", False),
        enum=one.get("enum"),
        config=one.get("config"),
        nargs=one.get("nargs"),
        repeated=one.get("repeated", False),
        deprecated=one.get("deprecated", False),
        bounds=one.get("bounds", {}),
        default=one.get("default"),
    )


def _key(one: Mapping[str, Any]) -> ConfigKey:
    return ConfigKey(
        types=tuple(one["type"]),
        default=one.get("default"),
        given=one.get("given", True),
        converted=one.get("converted", False),
        bounds=one.get("bounds", {}),
    )


def _variable(name: str, readers: Mapping[str, str], one: Mapping[str, Any]) -> Variable:
    return Variable(
        name=name,
        readers=readers,
        kind=one.get("kind", "text"),
        choices=tuple(one.get("choices", ())),
        exact=one.get("exact", True),
        default=one.get("default"),
    )


def render_schema(document: Mapping[str, Json]) -> bytes:
    """Return the bytes of a pinned schema: sorted, one space for each level, ASCII."""
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode("ascii")
