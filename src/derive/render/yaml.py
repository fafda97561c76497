# SPDX-License-Identifier: Apache-2.0
"""YAML as a person reads it and every parser agrees on: block style, each text quoted, so that none reads as a number.

Core: no IO. Standard library only, so that no other package decides a byte.

What is written means the same to readers of YAML 1.1 (netplan) and 1.2 (Docker Compose).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from derive.canonical import Json

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""What YAML 1.1 reads as something else than text, in any case."""
_ITS_OWN = re.compile(r"[ !#-\[\]-~]*")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def encode_yaml(value: Mapping[str, Json]) -> bytes:
    """Return a mapping as a YAML document, keys in the order given; raises TypeError on what is not JSON."""
    lines: list[str] = []
    _add(lines, value, "")
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def _add(lines: list[str], value: Json, indent: str) -> None:
    """Add the lines of a mapping or list that is not empty."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            head = f"{indent}{_key(key)}:"
            if _is_block(item):
                lines.append(head)
                _add(lines, item, indent + "  ")
            else:
                lines.append(f"{head} {_scalar(item)}")
        return
    assert isinstance(value, (list, tuple))
    for item in value:
        if _is_block(item):
            # The first line of a block stands behind its dash.
            first = len(lines)
            _add(lines, item, indent + "  ")
            lines[first] = f"{indent}- {lines[first][len(indent) + 2 :]}"
        else:
            lines.append(f"{indent}- {_scalar(item)}")


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
