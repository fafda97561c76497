# SPDX-License-Identifier: Apache-2.0
"""What is known of a model's memory: its tensors, tables and caches, and what was measured where it ran.

Core: no IO. Standard library only: a rendering asks whether its shape fits.

All sizes are bytes, of one rank unless a docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Split: TypeAlias = Literal["none", "rows", "columns"]
KvFormat: TypeAlias = Literal["records", "vllm-0.33"]

FORMS: Mapping[str, int] = {"fp32": 128, "bf16": 64, "packed-bf16": 48, "mxfp8": 33, "mxfp4": 17}
"""Forms in which weights lie in memory, with the bytes that 32 neighbours of a row take, scales included."""

STORED: Mapping[str, int] = {"fp32": 4096, "bf16": 2048, "packed-bf16": 2048, "mxfp8": 1025, "mxfp4": 544}
"""The same in a checkpoint, for a square of 32 x 32: MXFP8 has one scale for it there, and a head is not packed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """``count`` tensors of shape ``rows x columns`` in one form, or a size of which no more is known (``bytes``).

    The ranks divide the axis ``split`` in whole units of ``unit``; a remainder is padded to the number of ranks.
    ``match`` is a pattern of names in a checkpoint.
    """

    name: str
    group: str
    count: int = 1
    rows: int = 0
    columns: int = 0
    form: str = "bf16"
    split: Split = "none"
    unit: int = 1
    bytes: int | None = None
    match: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Engram:
    """``tables`` tables of ``rows`` rows of ``row_bytes`` each; ranks divide them by whole hash heads."""

    tables: int
    heads: int
    rows: int
    row_bytes: int
    match: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """``layers`` layers that own a cache: one compressed record and one index key for each ``ratio`` positions."""

    ratio: int
    layers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Which layers cache what: all ``window_layers`` the last ``window`` positions, the sources everything."""

    block: int
    window: int
    window_layers: int
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """Sizes, in values, that the activations of one row follow from."""

    hidden: int
    streams: int
    heads: int
    head: int
    experts_per_row: int
    expert_width: int
    engram_columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Everything about a deployment that its memory follows from; sizes in bytes.

    ``captured`` are the batch sizes that graphs are captured for, ``steps`` how many steps may be under way at once,
    ``index_key_bytes`` the size of an index key or None for the format's own, ``formats`` the forms of tensors that
    the engine keeps in another than the table says.
    """

    ranks: int
    page_bytes: int
    context: int
    sequences: int
    batched_tokens: int
    steps: int
    captured: tuple[int, ...]
    kv_bytes: int
    kv_format: KvFormat
    index_key_bytes: int | None
    engram: Literal["disk", "memory"]
    formats: Mapping[str, str]
    carveout_bytes: int
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One deployment that ran: its conditions, and what was read there. None: not measured.

    ``available`` is the least MemAvailable seen on any node, ``available_range`` the range of such readings;
    ``other_engine`` says that its kernels and buffers were others, so that its KV tokens alone say something of ours.
    """

    name: str
    doc: str
    conditions: Conditions
    other_engine: bool
    kv_tokens: int | None
    weights: int | None
    graphs: int | None
    available: int | None
    available_range: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """From which measured deployment what no arithmetic gives is taken: names of :attr:`Facts.measured`.

    ``usable_bytes`` is what the machines measured left to Linux.
    """

    usable_bytes: int
    kv: str
    weights: str
    graphs: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A file of facts. ``checkpoint`` has the tensors as a checkpoint's own headers give them, when one was at hand.

    A shape is predicted from these where they are known; what ran is held against the table, which does not move.
    """

    file: str
    model: str
    source: str
    tensors: tuple[Tensor, ...]
    engram: Engram | None
    cache: Cache
    activations: Activations
    fit: Fit
    measured: Mapping[str, Measured]
    checkpoint: tuple[Tensor, ...] = ()
