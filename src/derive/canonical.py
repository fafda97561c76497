# SPDX-License-Identifier: Apache-2.0
"""The one encoder and the one hash: every identity is the SHA-256 of a canonical document or of exact bytes.

Core: no IO. Standard library only, so that no other package decides a byte.

A canonical document is UTF-8 JSON as RFC 8785 lays it out, restricted: integers within 2^53, no floats, no lone
surrogates, no duplicate keys, nothing folded, and a ``"derive": "<kind>/<version>"`` tag: docs/formats/canonical.md.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | bool | None"

EPOCH = 315532800
"""1980-01-01T00:00:00Z in seconds: the one time written anywhere (the earliest that a zip can hold)."""

_MAX_INTEGER = 2**53
_HEX = re.compile(r"[0-9a-f]{64}")
_TAG = re.compile(r"[a-z][a-z0-9-]*/[1-9][0-9]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DUMPS = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False).encode
_DUMPS_SORTED = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True, check_circular=False
).encode


class CanonicalError(ValueError):
    """A value that no canonical document can hold; the message names its path."""


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """A SHA-256, 64 lower-case hexadecimal digits. Text form ``sha256:<hex>``."""

    hex: str

    def __post_init__(self) -> None:
        if not _HEX.fullmatch(self.hex):
            msg = f"not a SHA-256 in lower-case hex: {self.hex!r}"
            raise ValueError(msg)

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Parse ``sha256:<64 hex>``; raises ValueError on anything else."""
        algorithm, _, rest = text.partition(":")
        if algorithm != "sha256":
            msg = f"not a sha256 digest: {text!r}"
            raise ValueError(msg)
        return cls(rest)

    @property
    def short(self) -> str:
        """The first 12 hex digits, for people."""
        return self.hex[:12]

    def __str__(self) -> str:
        return f"sha256:{self.hex}"

    def __hash__(self) -> int:
        # What a dataclass writes makes a tuple first; planning asks for a hundred thousand of these.
        return hash(self.hex)


def sha256(data: bytes | bytearray | memoryview) -> Digest:
    """Return the digest of exact bytes."""
    return Digest(hashlib.sha256(data).hexdigest())


def encode(value: Json) -> bytes:
    """Return the canonical bytes of a JSON value.

    Raises:
        CanonicalError: on floats, integers beyond 2^53, keys that are not text, lone surrogates.
    """
    if _is_plain(value):
        return _DUMPS_SORTED(value).encode("ascii")
    checked = _check(value, "")
    text = _DUMPS_SORTED(checked) if not _needs_utf16_order(checked) else _DUMPS(_utf16_sorted(checked))
    return text.encode("utf-8")


def decode(data: bytes) -> Json:
    """Parse JSON strictly: UTF-8, no duplicate keys, no floats, no integers beyond 2^53.

    The layout need not be canonical: a lock file is pretty-printed.

    Raises:
        CanonicalError: naming what is wrong.
    """
    try:
        text = data.decode("utf-8")
        return _check(json.loads(text, object_pairs_hook=_pairs, parse_float=_no_float, parse_constant=_no_float), "")
    except CanonicalError:
        raise
    except json.JSONDecodeError as error:
        raise CanonicalError(f"cannot be read as JSON: line {error.lineno}, column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, nested too deeply
        raise CanonicalError("cannot be read as JSON") from error


def digest_document(document: Mapping[str, Json]) -> Digest:
    """Return the digest of one tagged document.

    Raises:
        CanonicalError: when the ``derive`` tag is absent or malformed, or a value cannot be encoded.
    """
    tag = document.get("derive")
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise CanonicalError(f'derive: a hashed document needs a "<kind>/<version>" tag, got {tag!r}')
    return sha256(encode(document))


_ESCAPES = {byte: f"%{byte:02X}" for byte in range(256) if not 0x20 <= byte < 0x7F or byte == 0x25}


def escape(raw: bytes) -> str:
    """Write bytes (a path, a link target) as text: ``%XX`` for ``%`` and for bytes outside printable ASCII."""
    text = raw.decode("latin-1")
    return text if _is_its_own_escape(text) else text.translate(_ESCAPES)


def unescape(text: str) -> bytes:
    """Read what :func:`escape` wrote, and nothing else.

    Raises:
        CanonicalError: when the text is not exactly what ``escape`` would write.
    """
    if _is_its_own_escape(text):
        return text.encode("ascii")
    try:
        raw = text.encode("ascii")
    except UnicodeEncodeError as error:
        raise CanonicalError(f"not an escaped path: {text!r}") from error
    if "%" in text:
        raw = re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), raw)
    if escape(raw) != text:
        raise CanonicalError(f"not an escaped path: {text!r}")
    return raw


def _is_its_own_escape(text: str) -> bool:
    """Say whether a text is its own escape, which nearly every path is: there are very many of them."""
    return text.isascii() and text.isprintable() and "%" not in text


def _no_float(text: str) -> Json:
    raise CanonicalError(f"a float cannot stand in a canonical document: {text}")


def _pairs(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise CanonicalError(f"duplicate key: {twice!r}")
    return result


def _is_plain(value: object) -> bool:
    """Say whether a value is made of dicts, lists and ASCII text alone: nearly every document, recognised quickly."""
    if isinstance(value, str):
        return value.isascii()
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                return False
            if not (item.isascii() if type(item) is str else _is_plain(item)):
                return False
        return True
    if type(value) is list:
        return all(map(_is_plain, value))
    return value is None or (type(value) is int and -_MAX_INTEGER < value < _MAX_INTEGER) or type(value) is bool


def _check(value: object, path: str) -> Json:
    """Return the value as plain dicts and lists, refusing what cannot be canonical."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        if not value.isascii() and _SURROGATE.search(value):
            raise CanonicalError(f"{path or '.'}: lone surrogate in {value!r}")
        return value
    if isinstance(value, int):
        if not -_MAX_INTEGER < value < _MAX_INTEGER:
            raise CanonicalError(f"{path or '.'}: integer beyond 2^53: {value}")
        return value
    if isinstance(value, Mapping):
        result: dict[str, Json] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise CanonicalError(f"{path or '.'}: key is not text: {key!r}")
            _check(key, path)
            result[key] = _check(item, f"{path}.{key}" if path else key)
        return result
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_check(item, f"{path}[{index}]") for index, item in enumerate(value)]
    raise CanonicalError(f"{path or '.'}: {type(value).__name__} cannot stand in a canonical document: {value!r}")


def _needs_utf16_order(value: Json) -> bool:
    """Code point order differs from UTF-16 order only where a key holds a character beyond the BMP."""
    if isinstance(value, dict):
        return any((not k.isascii() and max(k) > "\uffff") or _needs_utf16_order(v) for k, v in value.items())
    if isinstance(value, list):
        return any(_needs_utf16_order(item) for item in value)
    return False


def _utf16_sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {k: _utf16_sorted(value[k]) for k in sorted(value, key=lambda k: k.encode("utf-16-be"))}
    if isinstance(value, list):
        return [_utf16_sorted(item) for item in value]
    return value
