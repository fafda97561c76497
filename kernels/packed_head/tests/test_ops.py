# SPDX-License-Identifier: Apache-2.0
"""What a caller's tensors become on their way to the kernel, and which are refused; the reference plays the kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from ds41_kernels.packed_head import ops, reference
from ds41_kernels.packed_head.pack import PackedHead, pack

Kernel = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int, torch.Tensor], None]


@pytest.fixture
def packed() -> PackedHead:
    generator = torch.Generator().manual_seed(1)
    return pack((torch.randn(21, 5120, generator=generator) * 0.15).to(torch.bfloat16))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, packed: PackedHead) -> list[tuple[str, str, str, int]]:
    """Serve the reference in the kernel's place; what was asked for is in the list."""
    found: list[tuple[str, str, str, int]] = []

    def kernel(
        x: torch.Tensor,
        blocks: torch.Tensor,
        starts: torch.Tensor,
        leading: torch.Tensor,
        entries: torch.Tensor,
        base: int,
        logits: torch.Tensor,
    ) -> None:
        assert blocks is packed.blocks
        assert starts is packed.starts
        assert leading is packed.leading
        assert entries is packed.entries
        assert base == packed.base
        logits.copy_(reference.head(x, packed))

    def load(kernel_name: str, program: str, shape: str, rows: int) -> Kernel:
        found.append((kernel_name, program, shape, rows))
        return kernel

    monkeypatch.setattr(ops, "load", load)
    return found


def rows_of(rows: int, columns: int = 5120) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows)).to(torch.bfloat16)


def test_the_row_count_picks_the_kernel(asked: list[tuple[str, str, str, int]], packed: PackedHead) -> None:
    assert torch.equal(ops.head(rows_of(3), packed), reference.head(rows_of(3), packed))
    ops.head(rows_of(96), packed)
    assert asked == [("packed_head", "head", "tp4", 3), ("packed_head", "head", "tp4", 96)]


@pytest.mark.usefixtures("asked")
def test_a_given_output_is_written_and_returned(packed: PackedHead) -> None:
    logits = torch.full((2, 21), float("nan"))
    assert ops.head(rows_of(2), packed, logits=logits) is logits
    assert torch.equal(logits, reference.head(rows_of(2), packed))


def test_no_rows_launch_nothing(asked: list[tuple[str, str, str, int]], packed: PackedHead) -> None:
    assert ops.head(rows_of(0), packed).shape == (0, 21)
    assert asked == []


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("x", "logits", "message"),
    [
        (rows_of(1)[0], None, "x has shape"),
        (rows_of(1).expand(40000, 5120), None, "at most 32768 rows"),
        (rows_of(2).float(), None, "x: dtype torch.float32, not torch.bfloat16"),
        (rows_of(2, 64), None, "x: shape .*64.*, not .*5120"),
        (rows_of(4)[::2], None, "x: not contiguous"),
        (torch.zeros(10241, dtype=torch.bfloat16)[1:].view(2, 5120), None, "x: not aligned to 16 bytes"),
        (rows_of(2), torch.zeros(2, 20), "logits: shape"),
        (rows_of(2), torch.zeros(2, 21, dtype=torch.bfloat16), "logits: dtype"),
        (rows_of(2), torch.zeros(21, 2).t(), "logits: not contiguous"),
    ],
)
def test_what_has_another_form_is_refused(
    packed: PackedHead, x: torch.Tensor, logits: torch.Tensor | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ops.head(x, packed, logits=logits)


def test_the_vocabulary_picks_the_shape() -> None:
    assert [ops.shape_of(vocab, 5120) for vocab in (1, 32320, 33792, 33793, 43092, 43094)] == ["tp4"] * 3 + ["tp3"] * 3
    with pytest.raises(ValueError, match="128 columns, not 5120"):
        ops.shape_of(32320, 128)
