# SPDX-License-Identifier: Apache-2.0
"""The formats against their definitions, code by code."""

from __future__ import annotations

import math

import torch
from ds41_kernels.mma_formats import reference

ALL_BYTES = torch.arange(256, dtype=torch.int32).to(torch.uint8)


def test_e2m1_is_sign_exponent_and_one_bit_of_fraction() -> None:
    for code, value in enumerate(reference.e2m1(torch.arange(16, dtype=torch.uint8))[::2].tolist()):
        exponent, fraction = code >> 1 & 3, code & 1
        size = (2 + fraction) * 2.0 ** (exponent - 2) if exponent else fraction / 2
        assert math.copysign(1, value) == (-1 if code & 8 else 1)
        assert abs(value) == size


def test_the_low_half_of_a_byte_comes_first() -> None:
    assert reference.e2m1(torch.tensor([0x72], dtype=torch.uint8)).tolist() == [1.0, 6.0]


def test_e4m3_has_one_nan_of_each_sign_and_no_infinity() -> None:
    values = reference.e4m3(ALL_BYTES)
    assert torch.isnan(values).nonzero().flatten().tolist() == [0x7F, 0xFF]
    assert values[~torch.isnan(values)].abs().max() == 448


def test_ue8m0_is_a_power_of_two_from_2_to_the_minus_127() -> None:
    values = reference.ue8m0(ALL_BYTES)
    assert values[0] == 2.0**-127
    assert torch.equal(values[1:255] / values[:254], torch.full((254,), 2.0, dtype=torch.float64))
    assert torch.isnan(values[255])


def test_a_scale_is_for_its_own_group() -> None:
    values = torch.ones(1, 64, dtype=torch.float64)
    scales = reference.ue8m0(torch.tensor([[127, 130]], dtype=torch.uint8))
    assert reference.scaled(values, scales, group=reference.GROUP).flatten().tolist() == [1.0] * 32 + [8.0] * 32


def test_scaled_e4m3_and_e2m1_are_exact_in_bf16_where_it_is_normal() -> None:
    """What the fallback rests on: making BF16 of a scaled value loses nothing from the stated scales up."""
    for values, least in ((reference.e4m3(ALL_BYTES), 10), (reference.e2m1(ALL_BYTES), 2)):
        for code in (least, 127, 240):
            exact = values * reference.ue8m0(torch.tensor(code, dtype=torch.uint8))
            rounded = exact.to(torch.float32).to(torch.bfloat16).to(torch.float64)
            assert torch.equal(rounded.nan_to_num(0), exact.nan_to_num(0))


def test_a_nan_in_a_value_or_a_scale_reaches_its_row_alone() -> None:
    b = torch.ones(4, 64, dtype=torch.float64)
    a = torch.ones(3, 64, dtype=torch.float64)
    a[1, 5] = torch.nan
    scales = torch.full((3, 2), 127, dtype=torch.uint8)
    scales[2, 1] = 255
    out = reference.product(reference.scaled(a, reference.ue8m0(scales), group=reference.GROUP), b)
    assert torch.isnan(out).all(dim=1).tolist() == [False, True, True]
    assert not torch.isnan(out[0]).any()


def test_an_fp32_sum_stays_within_the_bound() -> None:
    generator = torch.Generator().manual_seed(1)
    codes = torch.randint(0, 256, (2, 16, 256), generator=generator, dtype=torch.uint8)
    codes = torch.where(codes & 0x7F == 0x7F, codes & 0x80, codes)
    a, b = reference.e4m3(codes[0]), reference.e4m3(codes[1])
    single = (a.to(torch.float32) @ b.to(torch.float32).T).to(torch.float64)
    assert ((single - reference.product(a, b)).abs() <= reference.bound(a, b)).all()
