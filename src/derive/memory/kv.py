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
    """

    window: int
    window_block: int
    window_layers: int | None
    record: int
    index_key: int
    alignment: int
    doc: str


FORMATS: Mapping[KvFormat, Format] = {
    "records": Format(
        window=528,
        window_block=128,
        window_layers=3,
        record=288,
        index_key=68,
        alignment=1,
        doc="records of 528, 288 and 68 bytes, as the deployment that this one follows had them",
    ),
    "vllm-0.33": Format(
        window=584,
        window_block=32,
        window_layers=None,
        record=584,
        index_key=132,
        alignment=576,
        doc="records of 584 and 132 bytes, as vLLM 0.33.0 has them on this GPU",
    ),
}
"""What each ``kv-format`` means. How many window layers of the former engine share a group is inferred: as many as the
sources of ratio 2, which gives the 17 groups that it reported."""


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


def capacity(conditions: Conditions, cache: Cache, *, window_groups: int | None = None) -> Capacity:
    """Return what the pool of a deployment holds; ``window_groups`` stands in for the number that the layers give."""
    form = FORMATS[conditions.kv_format]
    key = conditions.index_key_bytes or form.index_key
    block = sum(
        source.layers
        * (_page(cache.block // source.ratio, form.record, form) + _page(cache.block // source.ratio, key, form))
        for source in cache.sources
    )
    if window_groups is None:
        window_groups = _groups(cache, form, block)
    each = window_blocks(conditions, cache)
    return Capacity(
        block_bytes=block,
        blocks=conditions.kv_bytes // block,
        token_bytes=sum((Fraction(source.layers, source.ratio) for source in cache.sources), Fraction(0))
        * (form.record + key),
        window_groups=window_groups,
        window_blocks=each,
        request_blocks=-(-conditions.context // cache.block) + window_groups * each + 1,
        context=conditions.context,
    )


def window_blocks(conditions: Conditions, cache: Cache) -> int:
    """Return the blocks that one group of window layers takes for one request.

    The window less one, and all rows of the steps under way, whose blocks are freed when the steps are done; one more
    because a window need not begin where a block does.
    """
    form = FORMATS[conditions.kv_format]
    rows = min(cache.window - 1 + conditions.steps * conditions.batched_tokens, conditions.context)
    return -(-rows // form.window_block) + 1


def fitted_groups(measured: Measured, cache: Cache) -> int:
    """Return how many window groups the tokens that a deployment reported stand for.

    Raises:
        ValueError: when it reported none.
    """
    if measured.kv_tokens is None:
        raise ValueError(f"{measured.name} has no KV tokens")
    told = measured.conditions
    bare = capacity(told, cache, window_groups=0)
    taken = Fraction(bare.blocks * told.context, measured.kv_tokens)
    return round((taken - bare.request_blocks) / bare.window_blocks)


def _page(records: int, size: int, form: Format) -> int:
    return -(-records * size // form.alignment) * form.alignment


def _groups(cache: Cache, form: Format, block: int) -> int:
    layers = form.window_layers or max(1, block // _page(form.window_block, form.window, form))
    return -(-cache.window_layers // layers)
