# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's own word on its tensors: its index, and the shapes in the headers of its safetensors files.

Core: no IO. Standard library only; nothing of a tensor but name, type and shape is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from derive.errors import InputErrors
from derive.memory.facts import Engram, Facts, Tensor
from derive.memory.weights import stored_bytes

PREFIX_BYTES = 8
MOST_HEADER_BYTES = 100 * 2**20
"""The longest header that the format allows."""

_BITS = {
    "F64": 64,
    "F32": 32,
    "F16": 16,
    "BF16": 16,
    "I64": 64,
    "I32": 32,
    "I16": 16,
    "U8": 8,
    "I8": 8,
    "BOOL": 8,
    "F4": 4,
}
_SUFFIXES = (".weight", ".scale")
_OTHERS = "names that the table does not know"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One tensor of a header: its type as safetensors calls it, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Its size in bytes; types of 8-bit floats begin with F8."""
        bits = 8 if self.dtype.startswith("F8") else _BITS.get(self.dtype, 8)
        size = bits
        for extent in self.shape:
            size *= extent
        return -(-size // 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """``model.safetensors.index.json``: which file holds which tensor, and the bytes of all tensors, if it says."""

    total_bytes: int | None
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Facts with a checkpoint's tensors in, and what did not agree: names that no pattern of the table matches."""

    facts: Facts
    unknown: tuple[str, ...]


def parse_index(data: bytes, file: str) -> Index:
    """Read an index.

    Raises:
        InputErrors: when it is none.
    """
    document = _json(data, file)
    names = document.get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise InputErrors.one('not an index of a checkpoint: no table "weight_map" of file names', where=file)
    metadata = document.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    return Index(total_bytes=size if isinstance(size, int) else None, files=names)


def header_bytes(prefix: bytes, file: str) -> int:
    """Return how long the header is that the first 8 bytes announce.

    Raises:
        InputErrors: when they announce none.
    """
    size = int.from_bytes(prefix, "little") if len(prefix) == PREFIX_BYTES else 0
    if not 2 <= size <= MOST_HEADER_BYTES:
        raise InputErrors.one("not a safetensors file: its first 8 bytes announce no header", where=file)
    return size


def parse_header(data: bytes, file: str) -> dict[str, Entry]:
    """Read a header.

    Raises:
        InputErrors: when it is none.
    """
    found = {}
    for name, value in _json(data, file).items():
        if name == "__metadata__":
            continue
        shape = value.get("shape") if isinstance(value, dict) else None
        if not isinstance(shape, list) or not all(isinstance(extent, int) and extent >= 0 for extent in shape):
            raise InputErrors.one(f"not a safetensors header: no shape for {name}", where=file)
        found[name] = Entry(dtype=str(value.get("dtype")), shape=tuple(shape))
    return found


def with_checkpoint(facts: Facts, entries: Mapping[str, Entry]) -> Read:
    """Return facts whose tensors are those of a checkpoint: shapes by its headers, groups and splits by the table.

    Scales count with the weights that they belong to, by the form in which both lie in memory.
    """
    find = _Patterns(facts)
    shapes: dict[tuple[str, int, int], int] = {}
    unknown: dict[str, int] = {}
    engram: list[Entry] = []
    known = {tensor.name: tensor for tensor in facts.tensors}
    for name, entry in entries.items():
        stem = _stem(name)
        owner = find(stem)
        if owner == _Patterns.ENGRAM:
            engram.append(entry)
        elif owner is None:
            unknown[name] = entry.bytes
        elif known[owner].bytes is None and not (name.endswith(".scale") and f"{stem}.weight" in entries):
            key = (owner, *_matrix(entry, known[owner].form))
            shapes[key] = shapes.get(key, 0) + 1
    sized = tuple(tensor for tensor in facts.tensors if tensor.bytes is not None)
    read = tuple(
        _tensor(known[owner], rows, columns, count) for (owner, rows, columns), count in sorted(shapes.items())
    )
    rest = (Tensor(name=_OTHERS, group="not in the table", bytes=sum(unknown.values())),) if unknown else ()
    order = {tensor.name: number for number, tensor in enumerate(facts.tensors)}
    tensors = tuple(sorted((*read, *sized), key=lambda tensor: order[tensor.name])) + rest
    return Read(
        facts=replace(facts, checkpoint=tensors, engram=_engram(facts.engram, engram)), unknown=tuple(sorted(unknown))
    )


def unmatched(facts: Facts, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of an index that no pattern of the table matches, sorted."""
    find = _Patterns(facts)
    return tuple(sorted(name for name in names if find(_stem(name)) is None))


def agreement(facts: Facts, index: Index | None, entries: Mapping[str, Entry] | None) -> tuple[str, ...]:
    """Say how a checkpoint and the table agree: total size, names that no pattern matches, and what was read."""
    lines = []
    if index is not None and index.total_bytes is not None:
        table = stored_bytes(facts.tensors, facts.engram)
        permille = (table - index.total_bytes) * 1000 // max(1, index.total_bytes)
        text = f"{index.total_bytes:,} bytes by the index, {table:,} by the table ({permille:+} per thousand)"
        lines.append(f"checkpoint: {text}")
    names = tuple(entries) if entries is not None else tuple(index.files) if index is not None else ()
    unknown = unmatched(facts, names)
    if unknown:
        lines.append(f"checkpoint: {len(unknown)} of {len(names)} names are not in the table, as {unknown[0]}")
    if entries is None:
        lines.append("checkpoint: its files are not all beside the index, so shapes are the table's")
    return tuple(lines)


class _Patterns:
    """Which tensor of the table a name belongs to; the first pattern that matches decides."""

    ENGRAM = ""

    def __init__(self, facts: Facts) -> None:
        pairs = [(tensor.name, tensor.match) for tensor in facts.tensors if tensor.match is not None]
        if facts.engram is not None and facts.engram.match is not None:
            pairs.insert(0, (self.ENGRAM, facts.engram.match))
        self._patterns = [(name, _pattern(match)) for name, match in pairs]
        self._seen: dict[str, str | None] = {}

    def __call__(self, stem: str) -> str | None:
        # Names differ by the number of their expert in their tens of thousands, and no pattern asks for that one.
        first = re.match(r"[^.]*\.[^.]*", stem)
        end = first.end() if first else 0
        short = stem[:end] + re.sub(r"\.\d+\.", ".0.", stem[end:])
        if short not in self._seen:
            self._seen[short] = next((name for name, pattern in self._patterns if pattern.fullmatch(short)), None)
        return self._seen[short]


def _pattern(match: str) -> re.Pattern[str]:
    """Return the expression of a pattern.

    ``*`` is anything but a dot, at the end anything at all; ``[ab]`` is one of these; ``a | b`` either.
    """
    texts = []
    for one in match.split(" | "):
        text = re.escape(one).replace(r"\[", "[").replace(r"\]", "]")
        text = text[:-2] + ".*" if text.endswith(r"\*") else text
        texts.append(text.replace(r"\*", "[^.]*"))
    return re.compile("|".join(texts))


def _stem(name: str) -> str:
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def _matrix(entry: Entry, form: str) -> tuple[int, int]:
    """Return rows and columns of values; a byte holds two of a 4-bit form."""
    *before, columns = entry.shape or (1,)
    rows = 1
    for extent in before:
        rows *= extent
    return rows, columns * 2 if form == "mxfp4" and entry.dtype in ("U8", "I8") else columns


def _tensor(like: Tensor, rows: int, columns: int, count: int) -> Tensor:
    extent = rows if like.split == "rows" else columns
    return replace(like, rows=rows, columns=columns, count=count, unit=max(1, gcd(like.unit, extent)))


def _engram(told: Engram | None, entries: list[Entry]) -> Engram | None:
    tables = [entry for entry in entries if entry.dtype not in ("F8_E8M0", "U8")]
    if told is None or not tables:
        return told
    rows = max(entry.shape[0] for entry in tables if entry.shape)
    size = sum(entry.bytes for entry in entries)
    return replace(told, tables=len(tables), rows=rows, row_bytes=-(-size // (rows * len(tables))))


def _json(data: bytes, file: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputErrors.one(f"not valid JSON: {error}", where=file) from error
    if not isinstance(document, dict):
        raise InputErrors.one("not a JSON object", where=file)
    return document
