# SPDX-License-Identifier: Apache-2.0
"""How a text is written where a program will read it as something else: shell, systemd, comma-separated lists, compose.

Core: no IO. Standard library only.

Each has an inverse in the program that reads it; the tests ask those programs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from derive.canonical import Json

_PLAIN_IN_A_UNIT = re.compile(r"[A-Za-z0-9_@:,./=+-]+")
_UNIT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "%": "%%", "$": "$$"}
_NEEDS_FIELD_QUOTES = re.compile(r'[",\r\n]|^\s|\s$|^$')


def shell(value: str | Sequence[str]) -> str:
    """Write a word, or several with a space between, for a POSIX shell."""
    return shlex.quote(value) if isinstance(value, str) else shlex.join(value)


def systemd(value: str | Sequence[str]) -> str:
    """Write a word, or several, for a command line of a unit: no specifier, no variable, no escape is expanded."""
    return _unit_word(value) if isinstance(value, str) else " ".join(_unit_word(word) for word in value)


def systemd_text(value: str) -> str:
    """Write one line of text for a setting of a unit that is not split into words.

    Raises:
        ValueError: when it is no single line, or ends in a backslash, which would join it with the next.
    """
    if value.endswith("\\") or not _is_one_line(value):
        raise ValueError(f"no line of a unit can hold {value!r}")
    return value.replace("%", "%%")


def comment(value: str | int) -> str:
    """Write text behind the sign of a comment; raises ValueError when it is no single line."""
    text = str(value)
    if not _is_one_line(text):
        raise ValueError(f"no comment can hold {text!r}")
    return text


def field_list(fields: Sequence[str]) -> str:
    """Write fields as one line of comma-separated values, as Docker reads ``--mount`` and ``--gpus``."""
    return ",".join(_field(one) for one in fields)


def compose(value: Json) -> Json:
    """Double each dollar in the texts of a document, but for keys: Docker Compose puts variables in their place."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, Mapping):
        return {key: compose(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [compose(item) for item in value]
    return value


def _unit_word(word: str) -> str:
    if _PLAIN_IN_A_UNIT.fullmatch(word):
        return word
    return '"' + "".join(_unit_character(character) for character in word) + '"'


def _unit_character(character: str) -> str:
    short = _UNIT_ESCAPES.get(character)
    if short is not None:
        return short
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x20 or code == 0x7F else character


def _is_one_line(text: str) -> bool:
    return not any(ord(character) < 0x20 or character in "\x7f\x85\u2028\u2029" for character in text)


def _field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _NEEDS_FIELD_QUOTES.search(text) else text
