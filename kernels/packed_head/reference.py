# SPDX-License-Identifier: Apache-2.0
"""What ``packed_head`` computes, in plain PyTorch: ``logits[r, v] = sum over k of x[r, k] * weight[v, k]``.

The order, which is the same for every tile and row count:

1. The sum starts from +0 in FP32. Columns come in chunks of 16, ascending.
2. A chunk's 16 products and the sum so far make the next sum, in FP32, in a tensor core with BF16 operands.
   Weights come from the main stream: where the row has an exception it holds a zero of the exception's sign.
3. Apart from that, the row's exceptions are summed from +0, columns ascending: each product rounded to FP32, then each
   sum rounded to FP32, to nearest, ties to even.
4. The logit is the sum of both, rounded likewise.

What a tensor core does inside step 2 is not published. This reference adds a chunk's products in float64, ascending,
then the sum, and rounds once to FP32; ``error_bound`` says how far a kernel may be from that. The promise that it
rests on: the 16 products are exact; they and the sum are added in one or two steps (8 products each), terms cut no
coarser than 2^-23 of the largest magnitude in the step; each step's result is rounded or cut to FP32.

Special values. A NaN in ``x`` makes its whole row NaN; a NaN weight makes its column of the logits NaN. An infinity in
``x`` makes its row infinite or NaN, never finite: against an exception it is NaN, since the main stream holds a zero
there. Zeros of either sign add nothing: a sum of zeros is +0.
Subnormal x, products and sums keep their values. A row of x sees no other row. Which NaN comes out is not promised.
"""

from __future__ import annotations

import torch
from ds41_kernels.packed_head.pack import PackedHead, exceptions_of, main_stream_bits

CHUNK = 16  # columns of one matrix instruction
UNIT = 2.0**-23
TERMS = 20  # two steps of nine terms, each cut, and two results


def head(x: torch.Tensor, packed: PackedHead) -> torch.Tensor:
    """Give the FP32 logits [rows, vocab] of BF16 ``x`` [rows, columns]."""
    return _sums(x, packed)[0]


def error_bound(x: torch.Tensor, packed: PackedHead) -> torch.Tensor:
    """Give, as float64 [rows, vocab], how far a finite logit of a kernel may be from ``head``."""
    return _sums(x, packed)[1]


def with_bound(x: torch.Tensor, packed: PackedHead) -> tuple[torch.Tensor, torch.Tensor]:
    """Give what ``head`` and ``error_bound`` give, for the price of one."""
    return _sums(x, packed)


def _sums(x: torch.Tensor, packed: PackedHead) -> tuple[torch.Tensor, torch.Tensor]:
    stream = main_stream_bits(packed, 0, packed.vocab).view(torch.bfloat16).to(torch.float64).t().contiguous()
    wide = x.to(torch.float64)
    sums = torch.zeros(len(x), packed.vocab, dtype=torch.float32, device=x.device)
    bound = torch.zeros(len(x), packed.vocab, dtype=torch.float64, device=x.device)
    for first in range(0, packed.columns, CHUNK):
        total = torch.zeros_like(bound)
        size = sums.abs().to(torch.float64)
        for k in range(first, first + CHUNK):
            product = wide[:, k, None] * stream[None, k]
            total += product
            size += product.abs()
        sums = (sums.to(torch.float64) + total).to(torch.float32)
        bound += TERMS * (UNIT * size + 2.0**-149)
    apart, doubt = _exceptions(x, packed)
    return sums + apart, bound + doubt + UNIT * (sums + apart).abs().to(torch.float64)


def _exceptions(x: torch.Tensor, packed: PackedHead) -> tuple[torch.Tensor, torch.Tensor]:
    """Give the sums of the exceptions and how far they are from exact ones."""
    rows, columns, values = exceptions_of(packed, 0, packed.vocab)
    weights = values.to(torch.int16).view(torch.bfloat16).to(torch.float32)
    sums = torch.zeros(len(x), packed.vocab, dtype=torch.float32, device=x.device)
    bound = torch.zeros(len(x), packed.vocab, dtype=torch.float64, device=x.device)
    turn = torch.arange(len(rows), device=x.device) - torch.searchsorted(rows, rows)
    for e in range(int(turn.max()) + 1 if len(turn) else 0):
        now = turn == e
        product = x[:, columns[now]].to(torch.float32) * weights[now]
        sums[:, rows[now]] += product
        bound[:, rows[now]] += UNIT * (sums[:, rows[now]].abs() + product.abs()).to(torch.float64) + 2.0**-148
    return sums, bound
