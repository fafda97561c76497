# SPDX-License-Identifier: Apache-2.0
"""How many tokens a KV cache holds: the pool's block, the blocks of one request, and what the engine reports.

Core: no IO. Standard library only.

The pool is a row of equal blocks. One group of layers (the sources, which cache everything) takes a block for each
``block`` positions; groups of window layers take what the window and the steps under way need; the compressors' open
pairs take one. A request at full length takes the sum, and the engine reports ``blocks x length / sum`` tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from derive.memory.facts import Cache, Conditions, KvFormat, Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Sizes of the records in bytes, and how an engine lays them into blocks.

    A page (a layer's records of one block) is rounded up to ``alignment``. Window layers have blocks of
    ``window_block`` positions; ``window_layers`` of them share a group, or None: as many as a block of the pool holds.
    ``known`` says that both were read from the engine's source; otherwise they are what a deployment's tokens gave.
    """

    window: int
    window_block: int
    window_layers: int | None
    record: int
    index_key: int
    alignment: int
    known: bool
    doc: str


FORMATS: Mapping[KvFormat, Format] = {
    "records": Format(
        window=528,
        window_block=128,
        window_layers=3,
        record=288,
        index_key=68,
        alignment=1,
        known=False,
        doc="records of 528, 288 and 68 bytes, as the deployment that this one follows had them",
    ),
    "vllm-0.33": Format(
        window=584,
        window_block=32,
        window_layers=None,
        record=584,
        index_key=132,
        alignment=576,
        known=True,
        doc="records of 584 and 132 bytes, as vLLM 0.33.0 has them on this GPU",
    ),
}
"""What each ``kv-format`` means. The window blocks of ``records`` stand here for facts that were fitted to an engine of
another format; where one of that format was measured, its own tokens decide (:func:`fitted_layout`)."""

WINDOW_BLOCKS = tuple(2**power for power in range(4, 13))
"""Sizes of window blocks that may be: powers of two, from 16 positions to 4,096."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How windows lie in the pool: the positions of a block of theirs, and how many groups take such blocks."""

    window_block: int
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a pool holds. ``request_blocks`` is what one request of full length takes; ``tokens`` what is reported."""

    block_bytes: int
    blocks: int
    token_bytes: Fraction
    window_groups: int
    window_blocks: int
    request_blocks: int
    context: int

    @property
    def tokens(self) -> int:
        """Tokens, as the engine reports them: whole and part requests of full length."""
        return self.blocks * self.context // self.request_blocks

    @property
    def windows_hundredths(self) -> int:
        """How many requests of full length there is room for, in hundredths, rounded down."""
        return self.blocks * 100 // self.request_blocks

    @property
    def least_bytes(self) -> int:
        """The smallest pool that one request of full length fits in."""
        return self.request_blocks * self.block_bytes


def capacity(conditions: Conditions, cache: Cache, *, layout: Layout | None = None) -> Capacity:
    """Return what the pool of a deployment holds; ``layout`` stands in for the one that the format gives."""
    form = FORMATS[conditions.kv_format]
    key = conditions.index_key_bytes or form.index_key
    block = sum(
        source.layers
        * (_page(cache.block // source.ratio, form.record, form) + _page(cache.block // source.ratio, key, form))
        for source in cache.sources
    )
    if layout is None:
        layout = Layout(window_block=form.window_block, groups=_groups(cache, form, block))
    each = window_blocks(conditions, cache, layout.window_block)
    return Capacity(
        block_bytes=block,
        blocks=conditions.kv_bytes // block,
        token_bytes=sum((Fraction(source.layers, source.ratio) for source in cache.sources), Fraction(0))
        * (form.record + key),
        window_groups=layout.groups,
        window_blocks=each,
        request_blocks=-(-conditions.context // cache.block) + layout.groups * each + 1,
        context=conditions.context,
    )


def window_blocks(conditions: Conditions, cache: Cache, window_block: int) -> int:
    """Return the blocks of ``window_block`` positions that one group of window layers takes for one request.

    The window less one, and all rows of the steps under way, whose blocks are freed when the steps are done; one more
    because a window need not begin where a block does.
    """
    rows = min(cache.window - 1 + conditions.steps * conditions.batched_tokens, conditions.context)
    return -(-rows // window_block) + 1


def layouts(measured: Measured, cache: Cache) -> tuple[Layout, ...]:
    """Return every layout that gives, to the token, what a deployment reported; no other deployment is looked at.

    A group has one window layer at least, so there are no more groups than such layers. Where the format's window
    blocks are known, no others are tried.
    """
    told = measured.conditions
    form = FORMATS[told.kv_format]
    bare = capacity(told, cache, layout=Layout(window_block=form.window_block, groups=0))
    held = bare.blocks * told.context
    return tuple(
        Layout(window_block=size, groups=groups)
        for size in ((form.window_block,) if form.known else WINDOW_BLOCKS)
        for each in (window_blocks(told, cache, size),)
        for groups in range(1, cache.window_layers + 1)
        if held // (bare.request_blocks + groups * each) == measured.kv_tokens
    )


def fitted_layout(measured: Measured, cache: Cache) -> Layout:
    """Return the one layout that a deployment's tokens stand for, else the format's blocks in the nearest number.

    Raises:
        ValueError: when it reported none.
    """
    if measured.kv_tokens is None:
        raise ValueError(f"{measured.name} has no KV tokens")
    exact = layouts(measured, cache)
    if len(exact) == 1:
        return exact[0]
    told = measured.conditions
    size = FORMATS[told.kv_format].window_block
    bare = capacity(told, cache, layout=Layout(window_block=size, groups=0))
    taken = Fraction(bare.blocks * told.context, measured.kv_tokens)
    return Layout(window_block=size, groups=max(0, round((taken - bare.request_blocks) / bare.window_blocks)))


def tokens_by_rate(measured: Measured, kv_bytes: int) -> int:
    """Return how many tokens a pool would hold at the bytes a token of a deployment that ran, whatever its layout.

    Raises:
        ValueError: when it reported none.
    """
    if measured.kv_tokens is None:
        raise ValueError(f"{measured.name} has no KV tokens")
    return kv_bytes * measured.kv_tokens // measured.conditions.kv_bytes


def _page(records: int, size: int, form: Format) -> int:
    return -(-records * size // form.alignment) * form.alignment


def _groups(cache: Cache, form: Format, block: int) -> int:
    layers = form.window_layers or max(1, block // _page(form.window_block, form.window, form))
    return -(-cache.window_layers // layers)
