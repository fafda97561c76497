# SPDX-License-Identifier: Apache-2.0
"""YAML as a person reads it and every parser agrees on: block style, each text quoted, so that none reads as a number.

Core: no IO. Standard library only, so that no other package decides a byte.

What is written means the same to readers of YAML 1.1 (netplan) and 1.2 (Docker Compose).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from derive.canonical import Json

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""What YAML 1.1 reads as something else than text, in any case."""
_ITS_OWN = re.compile(r"[ !#-\[\]-~]*")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def encode_yaml(value: Mapping[str, Json]) -> bytes:
    """Return a mapping as a YAML document, keys in the order given; raises TypeError on what is not JSON."""
    return "".join(f"{line}\n" for line in _lines(value, "")).encode("utf-8")


def _lines(value: Json, indent: str) -> Iterator[str]:
    """Yield the lines of a mapping or list that is not empty."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{indent}{_key(key)}:", item, indent + "  ")
        return
    assert isinstance(value, (list, tuple))
    for item in value:
        if _is_block(item):
            # The first line of a block stands behind its dash.
            first, *others = _lines(item, indent + "  ")
            yield f"{indent}- {first[len(indent) + 2 :]}"
            yield from others
        else:
            yield f"{indent}- {_scalar(item)}"


def _entry(head: str, item: Json, indent: str) -> Iterator[str]:
    if _is_block(item):
        yield head
        yield from _lines(item, indent)
    else:
        yield f"{head} {_scalar(item)}"


def _is_block(value: Json) -> bool:
    return isinstance(value, (Mapping, list, tuple)) and len(value) > 0


def _key(text: str) -> str:
    return text if _PLAIN_KEY.fullmatch(text) and text.lower() not in _WORDS else _quoted(text)


def _scalar(value: Json) -> str:
    match value:
        case str():
            return _quoted(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case None:
            return "null"
        case Mapping():
            return "{}"
        case list() | tuple():
            return "[]"
        case _:
            raise TypeError(f"not JSON: {value!r}")


def _quoted(text: str) -> str:
    if _ITS_OWN.fullmatch(text):
        return f'"{text}"'
    return '"' + "".join(_character(character) for character in text) + '"'


def _character(character: str) -> str:
    code = ord(character)
    if 0x20 <= code < 0x7F or _is_shown(code):
        return _SHORT.get(character, character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\U{code:08X}" if code > 0xFFFF else f"\\u{code:04X}"


def _is_shown(code: int) -> bool:
    """Say whether a character beyond ASCII stands for itself: fixed ranges, as Python's own differ by its version."""
    return 0xA1 <= code <= 0xD7FF and not 0x2028 <= code <= 0x2029
