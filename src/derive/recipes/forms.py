# SPDX-License-Identifier: Apache-2.0
"""What a value in a recipe may look like: forms, each with the words that say it.

Core: no IO. Standard library only: every rendering reads recipes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import Json
from derive.words import near

_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"([0-9]{1,16})(?:\.([0-9]{1,16}))?(B|KiB|MiB|GiB|TiB)")
_ANY_SIZE = re.compile(r"[0-9]+(\.[0-9]+)?(B|KiB|MiB|GiB|TiB)")
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_MOST_BYTES = 2**53 - 1
"""What a document holds as a number."""
_LEAST_MEMORY = 6 * 2**20
"""Docker gives no container less."""
_LIMIT = re.compile(r"(-1|[0-9]{1,19}):(-1|[0-9]{1,19})")
_MOST_LIMIT = 2**63 - 1
_SITE_WORDS = ("{home}", "{folder}", "{models}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One kind of value: ``expects`` is how a message names it, ``accepts`` judges a JSON value.

    ``near`` hints at what was meant by one that is not accepted.
    """

    expects: str
    accepts: Callable[[Json], bool]
    near: Callable[[Json], str | None] = lambda _: None


def decimal_text(value: Json) -> str | None:
    """Return the text of ``{"decimal": TEXT}``, the form in which TOML's floats are kept; None for anything else."""
    if isinstance(value, dict) and len(value) == 1:
        text = value.get("decimal")
        return text if isinstance(text, str) else None
    return None


def size_bytes(text: str) -> int:
    """Return the bytes of ``112GiB`` or ``119.7GiB``; part of a byte is cut off.

    Raises:
        ValueError: on another form, and on more than a document holds as a number.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a size, as in 112GiB: {text[:80]!r}")
    whole, part, unit = match.groups()
    digits = part or ""
    scale: int = 10 ** len(digits)
    size = int(whole + digits) * _UNITS[unit] // scale
    if size > _MOST_BYTES:
        raise ValueError(f"not a size below 8192TiB: {text!r}")
    return size


def number_text(value: Json) -> str | None:
    """Return the digits of a number that is not negative: of an integer, of a decimal, or of text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if value >= 0 else None
    text = value if isinstance(value, str) else decimal_text(value)
    return text if text is not None and _NUMBER.fullmatch(text) else None


def _is_size(value: Json, least: int = 0) -> bool:
    try:
        return isinstance(value, str) and size_bytes(value) >= least
    except ValueError:
        return False


def _near_size(value: Json) -> str | None:
    """Say that a size is one, and too large or too exact for a document."""
    is_size = isinstance(value, str) and _ANY_SIZE.fullmatch(value) is not None and not _is_size(value)
    return "below 8192TiB, and with 16 digits after the point at most" if is_size else None


def _is_limit(value: Json) -> bool:
    match = _LIMIT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return False
    soft, hard = (_MOST_LIMIT if one == "-1" else int(one) for one in match.groups())
    return soft <= hard <= _MOST_LIMIT


def _is_interval(value: Json) -> bool:
    text = number_text(value)
    return text is not None and 0.01 <= float(text) <= 60


def _are_words(value: Json) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_entrypoint(value: Json) -> bool:
    return _is_texts(value) and value[:1] != [""]  # type: ignore[index]


def _near_placeholder(value: Json) -> str | None:
    """Hint at the first placeholder that is none, or is out of its place."""
    for named in _PLACEHOLDER.finditer(value) if isinstance(value, str) else ():
        if named[0] not in _SITE_WORDS:
            return near(named[0], _SITE_WORDS) or f"known: {', '.join(_SITE_WORDS)}"
        if named.start():
            return f"{named[0]} stands at the beginning, or not at all"
    return None


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _is_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and "\0" not in item for item in value)


def _is_json(value: Json) -> bool:
    """Say whether a value is JSON whose text is one line: TOML has dates too, and no process takes NUL."""
    if isinstance(value, Mapping):
        return all("\0" not in key and _is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    return isinstance(value, int) or (isinstance(value, str) and "\0" not in value)


def _is_argument(value: Json) -> bool:
    return _is_json(value) and value not in ([], {}) and not (isinstance(value, str) and "\n" in value)


def pattern(expects: str, expression: str) -> Form:
    """Return the form of text that a regular expression matches whole."""
    compiled = re.compile(expression)
    return Form(expects=expects, accepts=lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None)


def patterns(expects: str, expression: str) -> Form:
    """Return the form of a list without repetition, of texts that a regular expression matches whole."""
    compiled = re.compile(expression)

    def accepts(value: Json) -> bool:
        texts = [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
        whole = isinstance(value, list) and len(set(texts)) == len(value)
        return whole and all(compiled.fullmatch(text) for text in texts)

    return Form(expects=expects, accepts=accepts)


def one_of(*words: str) -> Form:
    """Return the form of a choice."""
    return Form(
        expects=f"{', '.join(words[:-1])} or {words[-1]}",
        accepts=lambda value: value in words,
        near=lambda value: near(value, words) if isinstance(value, str) else None,
    )


def between(least: int, most: int) -> Form:
    """Return the form of an integer within bounds, both included."""

    def accepts(value: Json) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return Form(expects=f"an integer from {least} to {most}", accepts=accepts)


NAME = pattern("a name of small letters, digits and hyphens", r"[a-z0-9]+(-[a-z0-9]+)*")
NAMES = patterns("a list of distinct names of small letters, digits and hyphens", r"[a-z0-9]+(-[a-z0-9]+)*")
OPTION = pattern("the long name of an option, without its dashes", r"[a-z][a-z0-9]*([-_.][a-z0-9]+)*")
VARIABLE = pattern("the name of an environment variable", r"[A-Za-z_][A-Za-z0-9_]*")
_STEPS = r"(/[A-Za-z0-9._:-]*[A-Za-z0-9_-])"
_PLACEHOLDER = re.compile(r"\{[^{}]*\}?")
_NO_DOTS = r"(?!.*/\.\.?(/|$))"
ABSOLUTE = pattern("an absolute path of letters, digits and ._-", _NO_DOTS + r"(/[A-Za-z0-9._-]*[A-Za-z0-9_-])+")
_SOURCE = pattern(
    "an absolute path, or one that begins with {home}, {folder} or {models}",
    _NO_DOTS + r"(\{(home|folder|models)\}" + _STEPS + "*|" + _STEPS + "+)",
)
SOURCE = Form(expects=_SOURCE.expects, accepts=_SOURCE.accepts, near=_near_placeholder)
URL_PATH = pattern("a path as in a URL", r"/[A-Za-z0-9._~/-]*")
LIMIT = Form(
    expects="a limit as soft:hard, of 63 bits, soft not above hard, -1 for none",
    accepts=_is_limit,
)
ULIMIT = one_of(
    *("core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice"),
    *("nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"),
)
GPUS = pattern("all, or a number of GPUs up to 99", "all|[1-9][0-9]?")
TEXT = Form(expects="text in one line", accepts=_is_text)
TEXTS = Form(expects="a list of texts", accepts=_is_texts)
VALUE = Form(
    expects="text in one line, which may be empty",
    accepts=lambda value: isinstance(value, str) and (value == "" or value.isprintable()),
)
PROSE = Form(expects="text", accepts=lambda value: isinstance(value, str) and value.strip() != "")
WORDS = Form(expects="a list of texts in one line, none of them empty", accepts=_are_words)
ENTRYPOINT = Form(expects="a list of texts, the first of which is a program", accepts=_is_entrypoint)
SIZE = Form(expects="a size as text, as in 112GiB", accepts=_is_size, near=_near_size)
SOME_SIZE = Form(
    expects="a size as text, as in 112GiB, above 0", accepts=lambda value: _is_size(value, 1), near=_near_size
)
MEMORY = Form(
    expects="a size as text, as in 112GiB, of 6MiB at least",
    accepts=lambda value: _is_size(value, _LEAST_MEMORY),
    near=_near_size,
)
SECONDS = Form(expects="a number of seconds", accepts=lambda value: (number_text(value) or "0").strip("0.") != "")
INTERVAL = Form(expects="a number of seconds from 0.01 to 60", accepts=_is_interval)
SWITCH = Form(expects="true or false", accepts=lambda value: isinstance(value, bool))
PORT = between(1, 65535)
COUNT = between(1, 2**31 - 1)
JSON = Form(expects="text, a number, true, false, a list or a table", accepts=_is_json)
ARGUMENT = Form(
    expects="text in one line, a number, true, false, or a list or table that holds something", accepts=_is_argument
)


def is_table(value: Json) -> bool:
    """Say whether a value is a table to be merged key by key: a decimal is a number, and a removal is none either."""
    return isinstance(value, dict) and decimal_text(value) is None and removal(value) is None


def removal(value: Json) -> str | None:
    """Return why ``{ absent = "why" }`` removes something, and None for any other value."""
    if isinstance(value, dict) and len(value) == 1:
        reason = value.get("absent")
        return reason if isinstance(reason, str) else None
    return None


def texts(value: Json) -> tuple[str, ...]:
    """Return a list that :data:`TEXTS` accepts as values."""
    return tuple(str(item) for item in value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
