# SPDX-License-Identifier: Apache-2.0
"""What the products of mma_formats compute, in plain PyTorch.

`out[r, c]` is the sum over k of `a[r, k] * b[c, k]`. The operands stand for exact values, scales included; each product
is exact in FP32 for every format here but FP32 itself, whose operands become TF32 first. The matrix units sum a few
products at once, in an order and with an inner precision that NVIDIA does not state, into an FP32 accumulator; so a
reference can give the exact sum (here in float64) and a bound, not the bits. NaN in an operand or scale gives NaN.
"""

from __future__ import annotations

import torch

GROUP = 32
"""Values that share a UE8M0 scale."""

NVFP4_GROUP = 16
"""Values that share an E4M3 scale."""

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def e2m1(packed: torch.Tensor) -> torch.Tensor:
    """Bytes [..., n] -> float64 [..., 2 n]: two values each, the low half first; bit 3 of a half is the sign."""
    halves = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2).to(torch.int64)
    table = torch.tensor(_E2M1 + tuple(-value for value in _E2M1), dtype=torch.float64)
    return table[halves]


def e4m3(codes: torch.Tensor) -> torch.Tensor:
    """Bytes -> float64. 0x7f and 0xff are NaN; no code is infinite."""
    return codes.view(torch.float8_e4m3fn).to(torch.float64)


def ue8m0(codes: torch.Tensor) -> torch.Tensor:
    """Bytes -> float64 2^(code - 127); 255 is NaN."""
    power = torch.ldexp(torch.ones_like(codes, dtype=torch.float64), codes.to(torch.int32) - 127)
    return torch.where(codes == 255, torch.nan, power)


def tf32(values: torch.Tensor) -> torch.Tensor:
    """FP32 -> float64 of what a TF32 product may take at least: the upper 19 bits, 13 bits of fraction cut off."""
    return (values.view(torch.int32) & ~0x1FFF).view(torch.float32).to(torch.float64)


def scaled(values: torch.Tensor, scales: torch.Tensor, *, group: int) -> torch.Tensor:
    """float64 values [rows, depth] and scales [rows, depth / group] -> values times the scale of their group."""
    return values * scales.repeat_interleave(group, dim=-1)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """float64 [rows, depth] and [columns, depth] -> [rows, columns] sums in float64."""
    return a @ b.T


def bound(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """How far an FP32 sum of these products may lie from `product`: 2^-22 per term of the sum of magnitudes.

    Twice what one rounding of each partial sum makes: the units cut off where IEEE rounds.
    """
    return product(a.abs(), b.abs()) * (a.shape[-1] * 2.0**-22)
