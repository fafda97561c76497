# SPDX-License-Identifier: Apache-2.0
"""Packing keeps every bit, lays weights out as its page says, and refuses what it cannot keep."""

from __future__ import annotations

import pytest
import torch
from ds41_kernels.packed_head import pack as packing
from hypothesis import given, settings
from hypothesis import strategies as st

settings.register_profile("packed_head", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("packed_head")

EXPONENTS = {
    "any bits": (0, 255),
    "subnormal": (0, 0),
    "special": (255, 255),
    "low end": (0, 17),
    "high end": (126, 144),
}
KINDS = (*EXPONENTS, "model", "zeros", "few columns", "mixed")


def bits(shape: tuple[int, int], low: int, high: int, generator: torch.Generator) -> torch.Tensor:
    """BF16 of any bits whose exponent is from low to high."""
    pattern = torch.randint(0, 1 << 16, shape, generator=generator, dtype=torch.int32)
    exponent = torch.randint(low, high + 1, shape, generator=generator, dtype=torch.int32)
    return (pattern & 0x807F | exponent << 7).to(torch.int16).view(torch.bfloat16)


def weights(shape: tuple[int, int], kind: str, generator: torch.Generator) -> torch.Tensor:
    """Weights of one kind."""
    match kind:
        case "model":
            return (torch.randn(shape, generator=generator) * 0.15).to(torch.bfloat16)
        case "zeros":
            return (bits(shape, 0, 0, generator).view(torch.int16) & -0x8000).view(torch.bfloat16)
        case "few columns":
            rare = torch.rand(shape, generator=generator) < 0.01
            return torch.where(rare, bits(shape, 0, 255, generator), bits(shape, 112, 126, generator))
        case "mixed":
            which = torch.randint(0, len(KINDS) - 1, (shape[0], 1), generator=generator)
            found = bits(shape, 0, 255, generator)
            for i, other in enumerate(KINDS[1:-1], 1):
                found = torch.where(which == i, weights(shape, other, generator), found)
            return found
    return bits(shape, *EXPONENTS[kind], generator)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.view(torch.int16), b.view(torch.int16))


@given(
    vocab=st.integers(1, 70),
    blocks=st.integers(1, 3),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 1 << 30),
    base=st.none() | st.sampled_from((1, 2, 60, 112, 127, 128)),
)
def test_every_bit_comes_back(vocab: int, blocks: int, kind: str, seed: int, base: int | None) -> None:
    weight = weights((vocab, 64 * blocks), kind, torch.Generator().manual_seed(seed))
    packed = packing.pack(weight, base)
    assert same_bits(packing.unpack(packed), weight)
    assert packed.blocks.shape == (-(-vocab // 16), blocks, 384)
    assert packed.blocks.numel() * 4 == -(-vocab // 16) * 16 * 64 * blocks * 3 // 2


def test_every_pattern_comes_back_at_every_base() -> None:
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).view(1024, 64)
    for base in (1, 50, 113, 128):
        packed = packing.pack(every, base)
        assert same_bits(packing.unpack(packed), every)
        assert packed.exceptions == (1 << 16) - 15 * 256 - 2


def test_rows_are_packed_alike_on_both_sides_of_a_slab(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = weights((100, 128), "mixed", torch.Generator().manual_seed(3))
    whole = packing.pack(weight)
    monkeypatch.setattr(packing, "SLAB", 32)
    parts = packing.pack(weight)
    assert torch.equal(whole.blocks, parts.blocks)
    assert torch.equal(whole.starts, parts.starts)
    assert torch.equal(whole.entries, parts.entries)


@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 1 << 30))
def test_a_weight_lies_where_the_layout_says(kind: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight = weights((40, 128), kind, generator)
    packed = packing.pack(weight)
    for _ in range(20):
        row, column = (int(torch.randint(0, n, (), generator=generator)) for n in weight.shape)
        block = packed.blocks[row // 16, column // 64].view(torch.uint8).tolist()
        half, g, t = row % 16 // 8, row % 8, column % 8 // 2
        i = 4 * (column % 64 // 16) + 2 * (column % 16 // 8) + column % 2
        lane = 4 * g + t
        small = block[512 * half + 16 * lane + i]
        at = 1024 + 16 * lane + 8 * half + 4 * (i // 8)
        word = int.from_bytes(bytes(block[at : at + 4]), "little")
        turn = (0, 28, 4, 8)[i % 8 // 2]
        fields = (word >> turn | word << (32 - turn)) & 0xFFFFFFFF
        code = fields >> (23 if i % 2 else 7) & 15
        value = (small & 0x80) << 8 | (code + packed.base - 1 if code else 0) << 7 | small & 0x7F
        listed = {entry >> 16 & 0xFFFF: entry & 0xFFFF for entry in row_entries(packed, row)}
        wanted = int(weight[row, column].view(torch.int16)) & 0xFFFF
        if column in listed:
            assert value == wanted & 0x8000
            assert listed[column] == wanted
        else:
            assert value == wanted


def row_entries(packed: packing.PackedHead, row: int) -> list[int]:
    first, last = packed.starts[row // 16, row % 16 : row % 16 + 2].tolist()
    return [entry & 0xFFFFFFFF for entry in packed.entries[first:last].tolist()]


def test_exceptions_of_a_row_ascend_and_padding_has_none() -> None:
    weight = weights((37, 192), "mixed", torch.Generator().manual_seed(5))
    packed = packing.pack(weight)
    for row in range(48):
        columns = [entry >> 16 for entry in row_entries(packed, row)]
        assert columns == sorted(set(columns))
        assert row < 37 or not columns
    assert int(packed.starts[-1, -1]) == packed.exceptions


def test_columns_past_32767_fit_an_entry() -> None:
    weight = torch.zeros(1, 65472, dtype=torch.bfloat16)
    weight[0, [0, 32767, 32768, 65471]] = torch.tensor([3.0, float("inf"), 1e-39, -5.0], dtype=torch.bfloat16)
    packed = packing.pack(weight, 1)
    assert same_bits(packing.unpack(packed), weight)
    assert [entry >> 16 for entry in row_entries(packed, 0)] == [0, 32767, 32768, 65471]


def test_the_window_is_the_one_with_fewest_exceptions_and_of_equals_the_lowest() -> None:
    one = torch.ones(1, 64, dtype=torch.bfloat16)  # exponent 127
    assert packing.choose_base(one) == 113
    assert packing.pack(one).exceptions == 0
    one[0, 0] = 2.0**20  # too far from 1 for one window
    assert packing.choose_base(one) == 113
    assert packing.choose_base(torch.zeros(1, 64, dtype=torch.bfloat16)) == 1
    assert packing.choose_base(torch.full((1, 64), 2.0**100, dtype=torch.bfloat16)) == 1  # no window has it
    assert packing.choose_base(torch.full((1, 64), 2.0**15, dtype=torch.bfloat16)) == 128
    assert packing.choose_base(torch.full((1, 64), 2.0**-126, dtype=torch.bfloat16)) == 1


def test_multiplying_by_the_window_gives_the_weight_exactly() -> None:
    """What the kernel does to a code and a byte: every code, byte and base."""
    code = torch.arange(16, dtype=torch.int32)[:, None]
    byte = torch.arange(256, dtype=torch.int32)[None, :]
    byte = torch.where(code == 0, byte & 0x80, byte)
    small = ((byte & 0x80) << 8 | code << 7 | byte & 0x7F).to(torch.int16).view(torch.bfloat16)
    for base in range(1, 129):
        exponent = torch.where(code > 0, code + base - 1, 0)
        wanted = ((byte & 0x80) << 8 | exponent << 7 | byte & 0x7F).to(torch.int16).view(torch.bfloat16)
        assert same_bits(small * torch.tensor(2.0 ** (base - 1), dtype=torch.bfloat16), wanted)


@pytest.mark.parametrize(
    ("weight", "base", "message"),
    [
        (torch.zeros(4, 64), None, "expected a matrix of bfloat16, got torch.float32"),
        (torch.zeros(4, 4, 64, dtype=torch.bfloat16), None, "expected a matrix of bfloat16"),
        (torch.zeros(0, 64, dtype=torch.bfloat16), None, "expected a matrix of bfloat16"),
        (torch.zeros(4, 96, dtype=torch.bfloat16), None, "expected a multiple of 64 columns up to 65472, got 96"),
        (torch.zeros(1, 65536, dtype=torch.bfloat16), None, "got 65536"),
        (torch.zeros(4, 64, dtype=torch.bfloat16), 0, "expected a base of 1 to 128, got 0"),
        (torch.zeros(4, 64, dtype=torch.bfloat16), 129, "expected a base of 1 to 128, got 129"),
    ],
)
def test_what_has_another_form_is_refused(weight: torch.Tensor, base: int | None, message: str) -> None:
    with pytest.raises(packing.NotPackable, match=message):
        packing.pack(weight, base)


def test_a_lost_bit_is_refused_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = weights((20, 64), "model", torch.Generator().manual_seed(7))
    exact = packing._words_of_codes

    def lossy(codes: torch.Tensor) -> torch.Tensor:
        words = exact(codes)
        words[1, 0, 4 * 4 * 3] ^= 1 << 23  # group 1, g = 3, t = 0, half 0, word 0: the odd one of the first pair
        return words

    monkeypatch.setattr(packing, "_words_of_codes", lossy)
    with pytest.raises(packing.NotPackable, match="row 19, column 1: expected 0x"):
        packing.pack(weight)


def test_a_transposed_matrix_is_packed_like_its_copy() -> None:
    weight = weights((64, 128), "mixed", torch.Generator().manual_seed(9)).t()
    assert torch.equal(packing.pack(weight).blocks, packing.pack(weight.contiguous()).blocks)


@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 1 << 30))
def test_the_first_entries_of_a_group_stand_in_a_table_with_their_rows(kind: str, seed: int) -> None:
    packed = packing.pack(weights((40, 64), kind, torch.Generator().manual_seed(seed)), 112)
    for group, line in enumerate(packed.leading.tolist()):
        bounds = packed.starts[group].tolist()
        listed = [(row, e) for row in range(16) for e in packed.entries[bounds[row] : bounds[row + 1]].tolist()][:32]
        rows = sum((word & 0xFFFFFFFF) << 32 * i for i, word in enumerate(line[32:]))
        assert [(rows >> 4 * i & 15, e) for i, e in enumerate(line[:32]) if i < len(listed)] == listed
        assert line[len(listed) : 32] == [-65536] * (32 - len(listed))
        assert not rows >> 4 * len(listed)
