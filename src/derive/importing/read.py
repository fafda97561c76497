# SPDX-License-Identifier: Apache-2.0
"""The JSON of another deployment as values: decimals keep their text, and a key that stands twice is refused.

Core: no IO.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from derive.canonical import Json
from derive.errors import Problem, expected_got
from derive.words import one_line

_MAX_INTEGER = 2**53
_MAX_DIGITS = 17
HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which JSON can say, and nothing that is written can hold."""
_FORMAT = "schema_version"


def parse_option(text: str) -> Json:
    """Return the JSON value of an option.

    Raises:
        ValueError: when it is no JSON, or JSON of which the same text would not come back: numbers beyond 2^53, NaN,
            keys that stand twice, halves of surrogate pairs.
    """
    found = json.loads(text, object_pairs_hook=_pairs, parse_float=_decimal, parse_int=_integer, parse_constant=_no)
    if next(_halves(found, ""), None) is not None:
        raise ValueError("half of a surrogate pair")
    return cast("Json", found)


def parse_json(data: bytes, file: str) -> tuple[dict[str, Json], list[Problem]]:
    """Parse one file, whose root must be an object of ``schema_version`` 1; on problems it may be empty."""
    try:
        found = json.loads(
            data.decode("utf-8"), object_pairs_hook=_pairs, parse_float=_decimal, parse_int=_integer, parse_constant=_no
        )
    except UnicodeDecodeError as error:
        return {}, [Problem(where=file, message=f"not JSON: not UTF-8, at byte {error.start}")]
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        return {}, [Problem(where=file, message=f"not JSON: {error.msg.lower()}: {place}")]
    except (ValueError, RecursionError) as error:
        return {}, [Problem(where=file, message=f"not JSON: {error}")]
    if not isinstance(found, dict):
        detail = expected_got("an object", type(found).__name__)
        return {}, [Problem(where=file, message="not a cluster file or node map", detail=detail)]
    if found.get(_FORMAT, 1) != 1:
        detail = expected_got(1, found[_FORMAT])
        return {}, [Problem(where=f"{file}: {_FORMAT}", message="a format that cannot be imported", detail=detail)]
    return found, list(_halves(found, file))


def _halves(value: Json, file: str, path: str = "") -> Iterator[Problem]:
    """Yield each text, and each key, that holds half of a surrogate pair: no file can hold it."""
    place = f"{file}: {one_line(path)}" if path else file
    if isinstance(value, str) and HALF.search(value):
        yield Problem(where=place, message=f"half of a surrogate pair, which is no character: {one_line(value)[:80]}")
    elif isinstance(value, Mapping):
        for key, one in value.items():
            if HALF.search(key):
                message = f"a key with half of a surrogate pair, which is no character: {one_line(key)[:80]}"
                yield Problem(where=place, message=message)
            yield from _halves(one, file, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from _halves(one, file, f"{path}[{at}]")


def leaves(value: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield the path of every key below a value, lists being values of their own; an empty object is one too."""
    if isinstance(value, Mapping) and value and "decimal" not in value:
        for key, one in value.items():
            yield from leaves(one, f"{path}.{key}" if path else key)
    else:
        yield path, value


def shown(value: Json) -> str:
    """Write a value as it stands in JSON."""
    return json.dumps(_back(value), ensure_ascii=False)


def _back(value: Any) -> Any:
    match value:
        case {"decimal": str(text), **others} if not others:
            return float(text)
        case Mapping():
            return {key: _back(one) for key, one in value.items()}
        case list() | tuple():
            return [_back(one) for one in value]
        case _:
            return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {json.dumps(key)} stands twice")
        found[key] = value
    if found.keys() == {"decimal"}:
        raise ValueError("an object with no key but decimal, which is how numbers are kept")
    return found


def _decimal(text: str) -> dict[str, str]:
    return {"decimal": text}


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS or not -_MAX_INTEGER < int(text) < _MAX_INTEGER:
        raise ValueError(f"{text[:80]} is beyond 2^53")
    return int(text)


def _no(text: str) -> None:
    raise ValueError(f"{text} is no number that a document can hold")
