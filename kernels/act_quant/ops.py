# SPDX-License-Identifier: Apache-2.0
"""Cast rows to E4M3 with one UE8M0 scale per 32 values, and back, with the kernels compiled beforehand.

`reference.py` states the numerics; `ds41_kernels.load` says which errors a kernel that is missing gives. Both functions
launch on the current stream and wait for nothing; with their outputs given they allocate nothing, so they can be
captured in a graph.
"""

from __future__ import annotations

import torch
from ds41_kernels import load

GROUP = 32
MOST_GROUPS = 1 << 30  # the kernels count groups in 32 bits
ALIGNMENT = 16  # bytes; the widest access of a kernel
SHAPES = {torch.bfloat16: "bf16", torch.float32: "fp32"}


def quantise(
    x: torch.Tensor, *, values: torch.Tensor | None = None, scales: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return E4M3 values and UE8M0 scales of x.

    Args:
        x: [..., columns], BF16 or FP32, contiguous; columns a multiple of 32.
        values: where to write the values, [..., columns], torch.float8_e4m3fn, contiguous; None allocates.
        scales: where to write the scales, [..., columns // 32], torch.uint8, contiguous; None allocates. Its bytes are
            UE8M0: view them as torch.float8_e8m0fnu, or four at a time as the words of a block-scaled matrix product.

    Raises:
        ValueError: for a tensor of another form.
    """
    shape = _shape_of(x)
    scales_shape = (*x.shape[:-1], x.shape[-1] // GROUP)
    values = _output("values", values, x.shape, torch.float8_e4m3fn, x)
    scales = _output("scales", scales, scales_shape, torch.uint8, x)
    groups = scales.numel()
    if groups:
        kernel = load("act_quant", "quantise", shape, groups)
        kernel(x.view(groups, GROUP), values.view(groups, GROUP), scales.view(groups))
    return values, scales


def dequantise(
    values: torch.Tensor, scales: torch.Tensor, *, dtype: torch.dtype | None = None, x: torch.Tensor | None = None
) -> torch.Tensor:
    """Return values x scales.

    Args:
        values: [..., columns], torch.float8_e4m3fn, contiguous; columns a multiple of 32.
        scales: [..., columns // 32], torch.uint8 (UE8M0 bytes), contiguous.
        dtype: of the result, torch.bfloat16 (also if None and x is None) or torch.float32.
        x: where to write the result, [..., columns], contiguous; None allocates.

    Raises:
        ValueError: for a tensor of another form.
    """
    if dtype is None:
        dtype = torch.bfloat16 if x is None else x.dtype
    x = _output("x", x, values.shape, dtype, values)
    shape = _shape_of(x)
    _require("values", values, values.shape, torch.float8_e4m3fn, x)
    _require("scales", scales, (*values.shape[:-1], values.shape[-1] // GROUP), torch.uint8, x)
    groups = scales.numel()
    if groups:
        kernel = load("act_quant", "dequantise", shape, groups)
        kernel(values.view(groups, GROUP), scales.view(groups), x.view(groups, GROUP))
    return x


def _shape_of(x: torch.Tensor) -> str:
    """Return the name in kernel.toml of what serves x, which may have any number of rows of any such width."""
    shape = SHAPES.get(x.dtype)
    if shape is None:
        raise ValueError(f"x is {x.dtype}, not bfloat16 or float32")
    if x.dim() == 0 or x.shape[-1] % GROUP:
        raise ValueError(f"x has shape {tuple(x.shape)}: its last dimension is no multiple of {GROUP}")
    if x.numel() > MOST_GROUPS * GROUP:
        raise ValueError(f"x has {x.numel()} values, more than {MOST_GROUPS * GROUP}")
    _require("x", x, x.shape, x.dtype, x)
    return shape


def _output(
    name: str, given: torch.Tensor | None, shape: tuple[int, ...], dtype: torch.dtype, like: torch.Tensor
) -> torch.Tensor:
    if given is None:
        return torch.empty(shape, dtype=dtype, device=like.device)
    _require(name, given, shape, dtype, like)
    return given


def _require(name: str, given: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype, like: torch.Tensor) -> None:
    """Refuse what the kernels would read or write wrongly."""
    wrong = [
        f"{what} {found}, not {wanted}"
        for what, found, wanted in (
            ("dtype", given.dtype, dtype),
            ("shape", tuple(given.shape), tuple(shape)),
            ("device", given.device, like.device),
        )
        if found != wanted
    ]
    if not given.is_contiguous():
        wrong.append("not contiguous")
    # A byte per group needs no alignment; a group of values keeps that of the first.
    if dtype is not torch.uint8 and given.data_ptr() % ALIGNMENT:
        wrong.append(f"not aligned to {ALIGNMENT} bytes")
    if wrong:
        raise ValueError(f"{name}: {'; '.join(wrong)}")
