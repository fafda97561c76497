# SPDX-License-Identifier: Apache-2.0
"""What the tensors of a checkpoint take of one rank: divided, padded to the ranks, in the forms that the engine keeps.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from derive.memory.facts import FORMS, STORED, Engram, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One rank's part of a tensor: ``own`` bytes, and ``padding`` bytes that only make the ranks equal."""

    tensor: Tensor
    own: int
    padding: int


def share(tensor: Tensor, ranks: int, formats: Mapping[str, str]) -> Share:
    """Return one rank's part of a tensor; ``formats`` names forms other than the table's."""
    if tensor.bytes is not None:
        return Share(tensor=tensor, own=tensor.bytes, padding=0)
    form = FORMS[formats.get(tensor.name, tensor.form)]
    whole = _bytes(tensor.rows, tensor.columns, form)
    if tensor.split == "none":
        return Share(tensor=tensor, own=tensor.count * whole, padding=0)
    units = (tensor.rows if tensor.split == "rows" else tensor.columns) // tensor.unit
    extent = -(-units // ranks) * tensor.unit
    part = _bytes(extent, tensor.columns, form) if tensor.split == "rows" else _bytes(tensor.rows, extent, form)
    own = -(-tensor.count * whole // ranks)
    return Share(tensor=tensor, own=own, padding=max(0, tensor.count * part - own))


def shares(tensors: Iterable[Tensor], ranks: int, formats: Mapping[str, str]) -> tuple[Share, ...]:
    """Return one rank's part of each tensor."""
    return tuple(share(tensor, ranks, formats) for tensor in tensors)


def total(parts: Iterable[Share]) -> int:
    """Return the bytes of parts, padding included."""
    return sum(part.own + part.padding for part in parts)


def engram_bytes(engram: Engram, ranks: int) -> int:
    """Return the bytes of the tables' rows that one rank holds when they are in memory."""
    heads = -(-engram.heads // ranks)
    return engram.tables * -(-engram.rows * heads // engram.heads) * engram.row_bytes


def stored_bytes(tensors: Iterable[Tensor], engram: Engram | None) -> int:
    """Return what a checkpoint of these tensors takes on disk, its tables included."""
    tables = engram.tables * engram.rows * engram.row_bytes if engram is not None else 0
    return tables + sum(
        tensor.bytes
        if tensor.bytes is not None
        else tensor.count * -(-tensor.rows * tensor.columns * STORED[tensor.form] // 1024)
        for tensor in tensors
    )


def _bytes(rows: int, columns: int, form: int) -> int:
    """Return the bytes of a matrix: ``form`` bytes for each 32 values of a row."""
    return -(-rows * columns * form // 32)
