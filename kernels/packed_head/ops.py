# SPDX-License-Identifier: Apache-2.0
"""Logits of BF16 rows from packed weights, with the kernels compiled beforehand.

`reference.py` states the numerics, `pack.py` makes the weights; `ds41_kernels.load` says which errors a kernel that is
missing gives. `head` launches on the current stream and waits for nothing; with its output given it allocates nothing,
so it can be captured in a graph.
"""

from __future__ import annotations

import torch
from ds41_kernels import load
from ds41_kernels.packed_head.pack import PackedHead

COLUMNS = 5120
MOST_TP4 = 132 * 16 * 16  # rows that one wave of the smaller thread blocks covers
ALIGNMENT = 16  # bytes; the widest access of the kernel
MOST_ROWS = 1 << 15  # the kernel counts 16-byte pieces of x in 32 bits


def head(x: torch.Tensor, packed: PackedHead, *, logits: torch.Tensor | None = None) -> torch.Tensor:
    """Return the FP32 logits of x, [rows, vocab].

    Args:
        x: [rows, columns], BF16, contiguous.
        packed: the weights, on x's device.
        logits: where to write, [rows, vocab], FP32, contiguous; None allocates.

    Raises:
        ValueError: for a tensor of another form.
    """
    if x.dim() != 2 or len(x) > MOST_ROWS:
        raise ValueError(f"x has shape {tuple(x.shape)}, not [rows, columns] with at most {MOST_ROWS} rows")
    _require("x", x, (len(x), packed.columns), torch.bfloat16, packed.blocks)
    shape = (len(x), packed.vocab)
    if logits is None:
        logits = torch.empty(shape, dtype=torch.float32, device=x.device)
    _require("logits", logits, shape, torch.float32, packed.blocks)
    if len(x):
        kernel = load("packed_head", "head", shape_of(packed.vocab, packed.columns), len(x))
        kernel(x, packed.blocks, packed.starts, packed.leading, packed.entries, packed.base, logits)
    return logits


def shape_of(vocab: int, columns: int) -> str:
    """Return the name in kernel.toml of what serves a matrix: each shape any vocabulary, but one size of it best.

    Raises:
        ValueError: for another number of columns than the kernels were compiled for.
    """
    if columns != COLUMNS:
        raise ValueError(f"the weights have {columns} columns, not {COLUMNS}")
    return "tp4" if vocab <= MOST_TP4 else "tp3"


def _require(name: str, given: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype, like: torch.Tensor) -> None:
    """Refuse what the kernel would read or write wrongly."""
    wrong = [
        f"{what} {found}, not {wanted}"
        for what, found, wanted in (
            ("dtype", given.dtype, dtype),
            ("shape", tuple(given.shape), shape),
            ("device", given.device, like.device),
        )
        if found != wanted
    ]
    if not given.is_contiguous():
        wrong.append("not contiguous")
    if given.data_ptr() % ALIGNMENT:
        wrong.append(f"not aligned to {ALIGNMENT} bytes")
    if wrong:
        raise ValueError(f"{name}: {'; '.join(wrong)}")
