# SPDX-License-Identifier: Apache-2.0
"""Reading a canonical document back into a value: exact keys, exact types, or a refusal that names the key.

Core: no IO.

These documents are written by this package and carried inside derivations, so a malformed one is a fault of the program
or of a foreign store, not of a person's file: the error is a ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from derive.canonical import Digest, Json
from derive.words import LAST_S


class DocumentError(ValueError):
    """A document that this program would not have written; the message names the key."""


def fields(value: Json, *, tag: str, keys: Collection[str]) -> Mapping[str, Json]:
    """Return the document as a mapping; raises DocumentError unless it has this tag and these keys beside it."""
    if not isinstance(value, Mapping) or value.get("derive") != tag:
        raise DocumentError(f"not a {tag} document")
    exact(value, keys={"derive", *keys}, what=tag)
    return value


def exact(value: Json, *, keys: Collection[str], what: str) -> Mapping[str, Json]:
    """Return a mapping; raises DocumentError unless it has exactly these keys."""
    found = mapping(value, what)
    odd = sorted(set(found) ^ set(keys))
    if odd:
        raise DocumentError(f"{what}: unknown or absent keys: {', '.join(odd)}")
    return found


def text(document: Mapping[str, Json], key: str) -> str:
    """Return a text field; raises DocumentError when it is none."""
    value = document[key]
    if not isinstance(value, str):
        raise DocumentError(f"{key}: not text")
    return value


def integer(document: Mapping[str, Json], key: str) -> int:
    """Return an integer field; raises DocumentError when it is none."""
    value = document[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise DocumentError(f"{key}: not an integer")
    return value


def second(document: Mapping[str, Json], key: str) -> int:
    """Return a field of seconds since 1970, up to the end of the year 9999; raises DocumentError for any other."""
    value = integer(document, key)
    if not 0 <= value <= LAST_S:
        raise DocumentError(f"{key}: not seconds since 1970, up to the year 9999")
    return value


def items(document: Mapping[str, Json], key: str) -> Sequence[Json]:
    """Return a list field; raises DocumentError when it is none."""
    value = document[key]
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise DocumentError(f"{key}: not a list")
    return value


def texts(document: Mapping[str, Json], key: str) -> tuple[str, ...]:
    """Return a list of text; raises DocumentError when it is none."""
    values = items(document, key)
    if not all(isinstance(value, str) for value in values):
        raise DocumentError(f"{key}: not a list of text")
    return tuple(str(value) for value in values)


def text_map(document: Mapping[str, Json], key: str) -> dict[str, str]:
    """Return a mapping of text to text; raises DocumentError when it is none."""
    value = document[key]
    if not isinstance(value, Mapping) or not all(isinstance(item, str) for item in value.values()):
        raise DocumentError(f"{key}: not a mapping of text to text")
    return {name: str(item) for name, item in value.items()}


def mapping(value: Json, what: str) -> Mapping[str, Json]:
    """Return the value as a mapping; raises DocumentError when it is none."""
    if not isinstance(value, Mapping):
        raise DocumentError(f"{what}: not a mapping")
    return value


def digest(document: Mapping[str, Json], key: str) -> Digest:
    """Return a digest field; raises DocumentError when it is none."""
    return Digest.parse(text(document, key))
