# SPDX-License-Identifier: Apache-2.0
"""The numerics of act_quant in plain PyTorch: what the kernels' bits must be.

A row is cut into groups of 32 neighbouring values; nothing outside a group decides its bits.

`quantise`, per group, in FP32 (a BF16 value is widened first, which is exact):

1. amax = the largest |x| of the values that are not NaN, and at least 1e-4 (as FP32, bits 0x38D1B717).
2. The scale is the smallest power of two with amax <= 448 * scale; 448 = 1.75 x 2^8 is the largest E4M3 value. On the
   bits of amax: code = ((bits + 0x1FFFFF) >> 23) - 8. The sum carries into the exponent exactly if the fraction of
   amax exceeds 0.75. The scale is 2^(code - 127), the code is its UE8M0 byte: 105 (amax up to 1e-4) to 247 (infinity).
3. Each value is multiplied by 2^(127 - code): exact, save where the product is below 2^-126, which the next step takes
   to zero whether it is rounded or flushed.
4. The product is rounded to E4M3: to nearest, ties to even, subnormals (multiples of 2^-9 below 2^-6) kept, the
   sign of zero kept, magnitudes above 448 to 448. NaN of any sign and payload becomes 0x7F.

An infinity therefore has code 247 and value +-448, which is infinity again in FP32 (448 x 2^120 exceeds its range); so
are finite values from 248 x 2^120 up in such a group, FLT_MAX among them: they round to 256 x 2^120 = 2^128.

`dequantise`: value x 2^(code - 127) as an FP32 product, which is exact or infinite; code 255 is NaN, as is value
0x7F or 0xFF. For BF16 the product is rounded once more, to nearest, ties to even. Every NaN has the one pattern that
NVIDIA GPUs produce: 0x7FFFFFFF in FP32, 0x7FFF in BF16.

Source: the deployment's KV records and activations (scale = max(amax, 1e-4) / 448 rounded up to a power of two).
"""

from __future__ import annotations

import torch

GROUP = 32
LARGEST = 448.0
SMALLEST_AMAX = 1e-4


def quantise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return E4M3 values and UE8M0 scales of x.

    Args:
        x: [..., columns], BF16 or FP32; columns a multiple of 32.

    Returns:
        values: [..., columns], torch.float8_e4m3fn.
        scales: [..., columns // 32], torch.uint8, the UE8M0 bytes (view as torch.float8_e8m0fnu where that is wanted).
    """
    groups = x.reshape(-1, GROUP).to(torch.float32)
    magnitudes = torch.where(groups.isnan(), 0.0, groups.abs())
    amax = magnitudes.amax(dim=1, keepdim=True).clamp(min=SMALLEST_AMAX)
    code = ((amax.view(torch.int32) + 0x1FFFFF) >> 23) - 8
    factor = ((254 - code) << 23).view(torch.float32)
    values = (groups * factor).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn).view(torch.uint8)
    values = torch.where(groups.isnan(), 0x7F, values).to(torch.uint8).view(torch.float8_e4m3fn)
    return values.reshape(x.shape), code.to(torch.uint8).reshape(*x.shape[:-1], x.shape[-1] // GROUP)


def dequantise(values: torch.Tensor, scales: torch.Tensor, *, dtype: torch.dtype) -> torch.Tensor:
    """Return values x scales.

    Args:
        values: [..., columns], torch.float8_e4m3fn; columns a multiple of 32.
        scales: [..., columns // 32], torch.uint8, UE8M0 bytes.
        dtype: torch.bfloat16 or torch.float32.

    Returns:
        [..., columns] in dtype.
    """
    code = scales.reshape(-1, 1).to(torch.int32)
    bits = torch.where(code == 0, 0x00400000, torch.where(code == 255, 0x7FFFFFFF, code << 23))
    product = values.reshape(-1, GROUP).to(torch.float32) * bits.to(torch.int32).view(torch.float32)
    if dtype == torch.float32:
        result = torch.where(product.isnan(), 0x7FFFFFFF, product.view(torch.int32)).to(torch.int32)
    else:
        result = torch.where(product.isnan(), 0x7FFF, product.to(torch.bfloat16).view(torch.int16)).to(torch.int16)
    return result.view(dtype).reshape(values.shape)
