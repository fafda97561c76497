# SPDX-License-Identifier: Apache-2.0
"""The reference keeps its stated order, stays within its bound of float64, and keeps rows apart."""

from __future__ import annotations

import struct

import pytest
import torch
from ds41_kernels.packed_head import reference
from ds41_kernels.packed_head.pack import PackedHead, bits_of, exceptions_of, main_stream_bits, pack
from hypothesis import given, settings
from hypothesis import strategies as st

settings.register_profile("packed_head", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("packed_head")

NAN, INF = float("nan"), float("inf")


def model(vocab: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    """Weights as the model has them, a hundredth of them far outside any window."""
    weight = torch.randn(vocab, columns, generator=generator) * 0.15
    rare = torch.rand(vocab, columns, generator=generator) < 0.01
    far = torch.randint(-30, 6, (vocab, columns), generator=generator)
    return torch.where(rare, torch.ldexp(weight, far), weight).to(torch.bfloat16)


def rows_of(rows: int, columns: int, scale: int, generator: torch.Generator) -> torch.Tensor:
    return torch.ldexp(torch.randn(rows, columns, generator=generator), torch.tensor(scale)).to(torch.bfloat16)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.view(torch.int32), b.view(torch.int32))


def to_fp32(value: float) -> float:
    """Round a float64 to FP32, ties to even."""
    return struct.unpack("f", struct.pack("f", value))[0]


def scalar(x: torch.Tensor, packed: PackedHead, row: int, place: int) -> float:
    """One logit by the words of the reference's page."""
    stream = main_stream_bits(packed, 0, packed.vocab).view(torch.bfloat16)[place].tolist()
    values = x[row].tolist()
    total = 0.0
    for first in range(0, packed.columns, 16):
        chunk = 0.0
        for k in range(first, first + 16):
            chunk += values[k] * stream[k]
        total = to_fp32(total + chunk)
    apart = 0.0
    _, columns, bits = exceptions_of(packed, place, place + 1)
    for k, pattern in zip(columns.tolist(), bits.tolist(), strict=True):
        weight = struct.unpack("f", struct.pack("I", pattern << 16))[0]
        apart = to_fp32(apart + to_fp32(values[k] * weight))
    return to_fp32(total + apart)


@given(seed=st.integers(0, 1 << 30), scale=st.sampled_from((-140, -60, 0, 60)), blocks=st.integers(1, 2))
def test_a_logit_is_what_the_stated_order_gives(seed: int, scale: int, blocks: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    packed = pack(model(19, 64 * blocks, generator))
    x = rows_of(3, 64 * blocks, scale, generator)
    logits = reference.head(x, packed)
    for row in range(3):
        for place in (0, 7, 8, 15, 16, 18):
            assert float(logits[row, place]) == scalar(x, packed, row, place)


@given(
    seed=st.integers(0, 1 << 30),
    vocab=st.integers(1, 40),
    blocks=st.integers(1, 6),
    rows=st.integers(1, 9),
    scale=st.integers(-145, 100),
)
def test_float64_is_within_the_bound(seed: int, vocab: int, blocks: int, rows: int, scale: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight = model(vocab, 64 * blocks, generator)
    x = rows_of(rows, 64 * blocks, scale, generator)
    packed = pack(weight)
    wanted = x.to(torch.float64) @ weight.to(torch.float64).t()
    far = (reference.head(x, packed).to(torch.float64) - wanted).abs()
    assert bool((far <= reference.error_bound(x, packed)).all())


def test_the_error_is_that_of_fp32() -> None:
    generator = torch.Generator().manual_seed(1)
    weight = model(64, 5120, generator)
    x = rows_of(4, 5120, 0, generator)
    wanted = x.to(torch.float64) @ weight.to(torch.float64).t()
    far = reference.head(x, pack(weight)).to(torch.float64) - wanted
    assert float(far.norm() / wanted.norm()) < 1e-6


@settings(max_examples=15)
@given(seed=st.integers(0, 1 << 30), rows=st.integers(2, 9))
def test_a_row_alone_has_its_bits_in_a_batch(seed: int, rows: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    packed = pack(model(20, 128, generator))
    x = rows_of(rows, 128, 0, generator)
    x[0] = NAN
    together = reference.head(x, packed)
    for row in range(1, rows):
        assert same_bits(reference.head(x[row : row + 1], packed), together[row : row + 1])


def test_vocabulary_rows_that_pad_a_group_change_nothing() -> None:
    generator = torch.Generator().manual_seed(2)
    weight = model(32, 128, generator)
    x = rows_of(3, 128, 0, generator)
    whole = reference.head(x, pack(weight, 112))
    for vocab in (1, 15, 17, 31):
        assert same_bits(reference.head(x, pack(weight[:vocab], 112)), whole[:, :vocab].contiguous())


def test_the_window_does_not_change_a_sum_that_has_no_exceptions() -> None:
    generator = torch.Generator().manual_seed(3)
    weight = (1 + torch.rand(16, 64, generator=generator)).to(torch.bfloat16)  # exponent 127, and 128 for 2
    x = rows_of(2, 64, 0, generator)
    assert pack(weight, 114).exceptions == 0
    assert same_bits(reference.head(x, pack(weight, 114)), reference.head(x, pack(weight, 127)))


def test_a_nan_in_x_makes_its_row_nan_and_no_other() -> None:
    generator = torch.Generator().manual_seed(4)
    packed = pack(model(20, 64, generator))
    x = rows_of(3, 64, 0, generator)
    clean = reference.head(x, packed)
    x[1, 63] = NAN
    logits = reference.head(x, packed)
    assert bool(logits[1].isnan().all())
    assert same_bits(logits[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize("pattern", [0x7F81, 0x7FC0, 0xFFFF])
def test_a_nan_weight_makes_its_column_nan_and_no_other(pattern: int) -> None:
    generator = torch.Generator().manual_seed(5)
    weight = model(20, 64, generator)
    clean = reference.head(rows_of(3, 64, 0, torch.Generator().manual_seed(6)), pack(weight, 112))
    weight.view(torch.int16)[9, 3] = pattern - (1 << 16) if pattern >> 15 else pattern
    logits = reference.head(rows_of(3, 64, 0, torch.Generator().manual_seed(6)), pack(weight, 112))
    assert bool(logits[:, 9].isnan().all())
    assert same_bits(logits[:, :9].contiguous(), clean[:, :9].contiguous())
    assert same_bits(logits[:, 10:].contiguous(), clean[:, 10:].contiguous())


def test_an_infinite_weight_gives_infinities_of_the_sign_of_x_and_nan_against_zero() -> None:
    weight = torch.ones(1, 64, dtype=torch.bfloat16)
    weight[0, 40] = INF
    x = torch.ones(3, 64, dtype=torch.bfloat16)
    x[1, 40], x[2, 40] = -2.0, 0.0
    logits = reference.head(x, pack(weight))[:, 0].tolist()
    assert logits[:2] == [INF, -INF]
    assert logits[2] != logits[2]


def test_an_infinity_in_x_never_leaves_a_finite_logit() -> None:
    generator = torch.Generator().manual_seed(7)
    weight = model(40, 64, generator)
    weight[3, 5], weight[4, 5] = 0.0, 1e-30  # against a zero, and against an exception
    x = rows_of(2, 64, 0, generator)
    x[0, 5] = INF
    logits = reference.head(x, pack(weight, 112))
    assert not bool(logits[0].isfinite().any())
    assert bool(logits[0, 3:5].isnan().all())
    assert bool(logits[1].isfinite().all())


def test_zeros_of_either_sign_sum_to_plus_zero() -> None:
    weight = torch.tensor([[0.0], [-0.0]], dtype=torch.bfloat16).expand(2, 64)
    x = torch.tensor([[1.0], [-1.0], [0.0], [-0.0]], dtype=torch.bfloat16).expand(4, 64)
    packed = pack(weight)
    assert packed.exceptions == 0
    assert not bool(bits_of(reference.head(x, packed).to(torch.bfloat16)).any())
    assert same_bits(reference.head(x, packed), torch.zeros(4, 2))


def test_exceptions_are_summed_apart_in_ascending_order() -> None:
    # 2^30 swallows a 3 that is added to it: the order decides what is left when the two large ones have cancelled.
    weight = torch.zeros(1, 64, dtype=torch.bfloat16)
    weight[0, [1, 20, 40, 60]] = torch.tensor([2.0**30, 3.0, -(2.0**30), 5.0], dtype=torch.bfloat16)
    weight[0, 50] = 2.0**-10
    x = torch.ones(1, 64, dtype=torch.bfloat16)
    packed = pack(weight, 106)  # of these only 2^-10 is in the window
    assert packed.exceptions == 4
    assert float(reference.head(x, packed)) == 5 + 2.0**-10
    weight[0, [1, 20, 40, 60]] = torch.tensor([2.0**30, -(2.0**30), 3.0, 5.0], dtype=torch.bfloat16)
    assert float(reference.head(x, pack(weight, 106))) == 8 + 2.0**-10


def test_many_exceptions_in_one_row_are_all_added() -> None:
    weight = torch.full((17, 256), 2.0**-130, dtype=torch.bfloat16)
    weight[:, 0] = 1.0
    x = torch.full((2, 256), 2.0**100, dtype=torch.bfloat16)
    packed = pack(weight, 113)
    assert packed.exceptions == 17 * 255
    wanted = x.to(torch.float64) @ weight.to(torch.float64).t()
    far = (reference.head(x, packed).to(torch.float64) - wanted).abs()
    assert bool((far <= reference.error_bound(x, packed)).all())
