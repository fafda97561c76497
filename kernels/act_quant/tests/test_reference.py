# SPDX-License-Identifier: Apache-2.0
"""The reference against another formulation in float64: a table of E4M3's values, nearest by search, scale by trial.

float64 holds every FP32 value, every product with a power of two and every midpoint between E4M3 values exactly, so
what is compared has no rounding but the one that the format asks for.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ds41_kernels.act_quant import reference
from hypothesis import given
from hypothesis import strategies as st

GROUP = 32
NAN = 0x7F
DTYPES = (torch.bfloat16, torch.float32)
SCALE_POWERS = range(-22, 121)  # of the scales that quantise gives: codes 105 to 247


def magnitude(code: int) -> float:
    """The value of an E4M3 code without its sign, from the definition of the format."""
    exponent, fraction = code >> 3, code & 7
    return (8 + fraction) * 2.0 ** (exponent - 10) if exponent else fraction * 2.0**-9


MAGNITUDES = np.array([magnitude(code) for code in range(NAN)])
MIDPOINTS = (MAGNITUDES[1:] + MAGNITUDES[:-1]) / 2


def nearest(value: np.ndarray) -> np.ndarray:
    """The E4M3 codes nearest to float64 values, even codes on ties, 448 beyond."""
    size = np.abs(value)
    above = np.searchsorted(MIDPOINTS, size, side="left")  # a tie is not above its midpoint
    tie = (above < len(MIDPOINTS)) & (MIDPOINTS[np.minimum(above, len(MIDPOINTS) - 1)] == size)
    code = above + (tie & (above % 2 == 1))
    code = np.where(np.isnan(value), NAN, code + 0x80 * np.signbit(value))
    return code.astype(np.uint8)


def expected(x: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Codes and scales of groups [n, 32], in float64."""
    wide = x.to(torch.float64).numpy()
    amax = np.where(np.isnan(wide), 0.0, np.abs(wide)).max(axis=1)
    amax = np.maximum(amax, float(np.float32(1e-4)))
    powers = np.array(SCALE_POWERS, dtype=np.float64)
    fits = amax[:, None] <= 448.0 * 2.0**powers
    power = np.where(fits.any(axis=1), powers[fits.argmax(axis=1)], powers[-1])  # an infinity fits none
    return nearest(wide / 2.0 ** power[:, None]), (power + 127).astype(np.uint8)


def agree(x: torch.Tensor) -> None:
    values, scales = reference.quantise(x)
    codes, powers = expected(x.reshape(-1, GROUP))
    assert values.shape == x.shape
    assert values.dtype == torch.float8_e4m3fn
    assert scales.shape == (*x.shape[:-1], x.shape[-1] // GROUP)
    assert scales.dtype == torch.uint8
    np.testing.assert_array_equal(scales.reshape(-1).numpy(), powers)
    np.testing.assert_array_equal(values.reshape(-1, GROUP).view(torch.uint8).numpy(), codes)


def every_bf16() -> torch.Tensor:
    return torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def integers_of(dtype: torch.dtype) -> torch.dtype:
    return torch.int16 if dtype == torch.bfloat16 else torch.int32


def test_the_table_is_the_format() -> None:
    # Act: torch's own reading of all codes that are not NaN.
    read = torch.arange(NAN, dtype=torch.uint8).view(torch.float8_e4m3fn).to(torch.float64).numpy()
    np.testing.assert_array_equal(read, MAGNITUDES)
    assert MAGNITUDES[-1] == 448


def test_every_bf16_value_alone_in_its_group() -> None:
    x = torch.zeros(65536, GROUP, dtype=torch.bfloat16)
    x[:, 5] = every_bf16()
    agree(x)


@pytest.mark.parametrize("largest", [448.0, 449.0 * 2.0**-30, 2.0**64, 3.0e38, float("inf")])
def test_every_bf16_value_up_to_a_given_one_beside_it(largest: float) -> None:
    values = every_bf16()
    values = values[~(values.abs() > largest)]
    x = torch.nn.functional.pad(values, (0, -len(values) % (GROUP - 1))).reshape(-1, GROUP - 1)
    agree(torch.nn.functional.pad(x, (1, 0), value=-largest))


def test_every_bf16_value_in_order() -> None:
    agree(every_bf16().reshape(64, 1024))


def test_ties_at_every_scale_go_to_the_even_code_and_their_neighbours_to_the_nearer() -> None:
    """All 126 midpoints, one FP32 step below and above, both signs, under each of the 143 scales."""
    midpoints = torch.tensor(MIDPOINTS, dtype=torch.float32)
    beyond = torch.full_like(midpoints, 999.0)
    around = torch.stack([midpoints.nextafter(0 * midpoints), midpoints, midpoints.nextafter(beyond)])
    column = torch.cat([around.flatten(), -around.flatten()])
    column = column[column.abs() <= 448.0]
    rest = -len(column) % (GROUP - 1)
    groups = torch.cat([column, column.new_zeros(rest)]).reshape(-1, GROUP - 1)
    groups = torch.cat([groups, groups.new_full((len(groups), 1), 448.0)], dim=1)
    powers = torch.tensor(SCALE_POWERS[:-1], dtype=torch.int32)  # 448 x 2^120 is no FP32 number
    agree(torch.ldexp(groups.expand(len(powers), -1, -1), powers[:, None, None]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_group_changes_its_scale_one_step_above_448_times_a_power_of_two(dtype: torch.dtype) -> None:
    powers = torch.tensor(SCALE_POWERS[:-1], dtype=torch.int32)
    amax = torch.ldexp(torch.full(powers.shape, 448.0), powers).to(dtype)
    form = integers_of(dtype)
    for step, shift in ((-1, 0), (0, 0), (1, 1)):
        x = torch.zeros(len(powers), GROUP, dtype=dtype)
        x[:, 9] = -(amax.view(form) + step).view(dtype)
        agree(x)
        assert reference.quantise(x)[1].flatten().tolist() == [int(power) + 127 + shift for power in powers]


def test_nothing_has_a_smaller_scale_than_a_largest_value_of_a_ten_thousandth() -> None:
    smallest = torch.tensor(0x38D1B717, dtype=torch.int32).view(torch.float32)
    assert float(smallest) == float(np.float32(1e-4))
    x = torch.zeros(5, GROUP)
    x[1, 0], x[2, 0], x[3, 0], x[4, 0] = smallest, smallest / 2, 2.0**-149, torch.nan
    agree(x)
    assert reference.quantise(x)[1].flatten().tolist() == [105] * 5


def test_nan_becomes_one_code_and_moves_no_scale() -> None:
    payloads = torch.tensor([0x7FC00000, 0x7F800001, -0x00400000, -1], dtype=torch.int32).view(torch.float32)
    x = torch.full((4, GROUP), 3.0)
    without = reference.quantise(x)
    x[:, 4] = payloads
    values, scales = reference.quantise(x)
    agree(x)
    assert values.view(torch.uint8)[:, 4].tolist() == [NAN] * 4
    assert torch.equal(scales, without[1])
    others = [column for column in range(GROUP) if column != 4]
    assert torch.equal(values.view(torch.uint8)[:, others], without[0].view(torch.uint8)[:, others])


def test_infinity_and_the_largest_number_come_back_as_infinity() -> None:
    x = torch.zeros(3, GROUP)
    x[0, 0], x[1, 1], x[2, 2] = torch.inf, -torch.inf, torch.finfo(torch.float32).max
    agree(x)
    values, scales = reference.quantise(x)
    assert scales.flatten().tolist() == [247] * 3
    back = reference.dequantise(values, scales, dtype=torch.float32)
    assert [float(back[i, i]) for i in range(3)] == [torch.inf, -torch.inf, torch.inf]


def test_zeros_keep_their_sign() -> None:
    x = torch.tensor([0.0, -0.0, 2.0**-140, -(2.0**-140)]).repeat(8)[None]
    values, scales = reference.quantise(x)
    assert values.view(torch.uint8)[0, :4].tolist() == [0x00, 0x80, 0x00, 0x80]
    back = reference.dequantise(values, scales, dtype=torch.bfloat16)
    assert back.signbit()[0, :4].tolist() == [False, True, False, True]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_code_under_every_scale_dequantises_to_the_exact_product_rounded_once(dtype: torch.dtype) -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    values = codes.repeat(256, 1)
    got = reference.dequantise(values.view(torch.float8_e4m3fn), codes[:, None].repeat(1, 8), dtype=dtype)
    sign = np.where(codes.numpy() >= 0x80, -1.0, 1.0)
    table = sign * np.append(MAGNITUDES, np.nan)[codes.numpy() & NAN]
    scale = np.append(2.0 ** np.arange(-127.0, 128.0), np.nan)
    with np.errstate(over="ignore"):
        single = (scale[:, None] * table[None]).astype(np.float32)
    finite = ~np.isnan(single)
    assert np.all((single == scale[:, None] * table[None])[finite & ~np.isinf(single)])  # the FP32 product is exact
    bits = single.view(np.uint32).astype(np.uint64)
    if dtype == torch.bfloat16:
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    bits = np.where(finite, bits, 0x7FFF if dtype == torch.bfloat16 else 0x7FFFFFFF)
    mask = 0xFFFF if dtype == torch.bfloat16 else 0xFFFFFFFF
    np.testing.assert_array_equal(got.view(integers_of(dtype)).to(torch.int64).numpy() & mask, bits.astype(np.int64))


@st.composite
def matrices(draw: st.DrawFn) -> torch.Tensor:
    """Matrices of any shape: any bits, or values within a few powers of two of one another."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = (*draw(st.lists(st.integers(1, 3), max_size=2)), draw(st.integers(0, 4)), GROUP * draw(st.integers(1, 3)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        limits = torch.iinfo(integers_of(dtype))
        bits = torch.randint(limits.min, limits.max + 1, shape, generator=generator)
        return bits.to(integers_of(dtype)).view(dtype)
    spread = draw(st.integers(1, 40))
    middle = draw(st.integers(-150, 120))
    powers = torch.randint(middle - spread, middle + spread + 1, shape, generator=generator, dtype=torch.int32)
    x = torch.ldexp(torch.randn(shape, generator=generator, dtype=torch.float64), powers).to(dtype)
    special = draw(st.sampled_from([0.0, -0.0, 448.0, torch.inf, -torch.inf, torch.nan, 2.0**-126, 2.0**-133, 1e-4]))
    chance = torch.rand(shape, generator=generator)
    return torch.where(chance < draw(st.sampled_from([0.0, 0.1, 0.9])), torch.tensor(special, dtype=dtype), x)


@given(x=matrices())
def test_any_matrix_agrees_with_float64(x: torch.Tensor) -> None:
    agree(x)


@given(x=matrices())
def test_a_round_trip_errs_by_half_a_step_at_most(x: torch.Tensor) -> None:
    """Half a step is 1/16 of a normal value's size at most, and 2^-10 of the scale for a subnormal one."""
    values, scales = reference.quantise(x)
    back = reference.dequantise(values, scales, dtype=torch.float32).to(torch.float64)
    wide = x.to(torch.float64)
    scale = torch.ldexp(torch.ones(scales.shape, dtype=torch.float64), scales.int() - 127)
    scale = scale.repeat_interleave(GROUP, dim=-1)
    bound = torch.maximum(wide.abs() / 16, scale / 1024)
    unbounded = wide.isinf() | (wide.abs() >= 248 * 2.0**120)
    assert torch.equal(back.isnan(), wide.isnan())
    assert torch.all(((back - wide).abs() <= bound) | wide.isnan() | unbounded)
    assert torch.equal(back.signbit() | wide.isnan(), wide.signbit() | wide.isnan())


def test_in_a_group_with_infinity_what_rounds_past_the_largest_number_comes_back_infinite() -> None:
    below, edge = 247.0 * 2.0**120, 248.0 * 2.0**120
    x = torch.tensor([torch.inf, below, edge, -edge] + [1.0] * (GROUP - 4)).view(1, GROUP)
    back = reference.dequantise(*reference.quantise(x), dtype=torch.float32)[0, :4]
    assert back.tolist() == [torch.inf, 240.0 * 2.0**120, torch.inf, -torch.inf]


@given(x=matrices())
def test_what_was_dequantised_quantises_to_the_same_numbers(x: torch.Tensor) -> None:
    once = reference.dequantise(*reference.quantise(x), dtype=torch.float32)
    twice = reference.dequantise(*reference.quantise(once), dtype=torch.float32)
    assert torch.equal(once.view(torch.int32), twice.view(torch.int32))


@given(x=matrices(), data=st.data())
def test_a_group_depends_on_nothing_beside_it(x: torch.Tensor, data: st.DataObject) -> None:
    groups = x.reshape(-1, GROUP)
    order = data.draw(st.permutations(range(len(groups))))
    chosen = order[: data.draw(st.integers(0, len(groups)))]
    values, scales = reference.quantise(x)
    some_values, some_scales = reference.quantise(groups[chosen])
    assert torch.equal(some_values.view(torch.uint8), values.view(torch.uint8).reshape(-1, GROUP)[chosen])
    assert torch.equal(some_scales, scales.reshape(-1, 1)[chosen])
    back = reference.dequantise(values, scales, dtype=torch.float32).view(torch.int32)
    some = reference.dequantise(some_values, some_scales, dtype=torch.float32).view(torch.int32)
    assert torch.equal(some, back.reshape(-1, GROUP)[chosen])
