# SPDX-License-Identifier: Apache-2.0
"""What a caller's tensors become on their way to a kernel, and which are refused; the reference plays the kernels."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from ds41_kernels.act_quant import bench, ops, reference


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str, int]]:
    """Serve the reference in the kernels' place; what was asked for is in the list."""
    found: list[tuple[str, str, str, int]] = []

    def quantise(x: torch.Tensor, values: torch.Tensor, scales: torch.Tensor) -> None:
        got = reference.quantise(x)
        values.copy_(got[0])
        scales.copy_(got[1].view(-1))

    def dequantise(values: torch.Tensor, scales: torch.Tensor, x: torch.Tensor) -> None:
        x.copy_(reference.dequantise(values, scales.view(-1, 1), dtype=x.dtype))

    def load(kernel: str, program: str, shape: str, rows: int) -> Callable[..., None]:
        found.append((kernel, program, shape, rows))
        return {"quantise": quantise, "dequantise": dequantise}[program]

    monkeypatch.setattr(ops, "load", load)
    return found


@pytest.mark.parametrize(("dtype", "shape"), [(torch.bfloat16, "bf16"), (torch.float32, "fp32")])
def test_a_matrix_is_a_list_of_groups(asked: list[tuple[str, str, str, int]], dtype: torch.dtype, shape: str) -> None:
    x = torch.randn(2, 3, 64).to(dtype)
    values, scales = ops.quantise(x)
    wanted = reference.quantise(x)
    assert torch.equal(values.view(torch.uint8), wanted[0].view(torch.uint8))
    assert torch.equal(scales, wanted[1])
    back = ops.dequantise(values, scales, dtype=dtype)
    assert torch.equal(back, reference.dequantise(*wanted, dtype=dtype))
    assert asked == [("act_quant", "quantise", shape, 12), ("act_quant", "dequantise", shape, 12)]


@pytest.mark.usefixtures("asked")
def test_given_outputs_are_written_and_returned() -> None:
    x = torch.randn(3, 32)
    values, scales = torch.empty(3, 32, dtype=torch.float8_e4m3fn), torch.empty(3, 1, dtype=torch.uint8)
    got = ops.quantise(x, values=values, scales=scales)
    assert got[0] is values
    assert got[1] is scales
    out = torch.empty(3, 32)
    assert ops.dequantise(values, scales, x=out) is out
    assert torch.equal(out, reference.dequantise(*reference.quantise(x), dtype=torch.float32))


@pytest.mark.usefixtures("asked")
def test_bf16_is_the_result_that_nobody_asked_to_be_otherwise() -> None:
    values, scales = ops.quantise(torch.randn(1, 32))
    assert ops.dequantise(values, scales).dtype == torch.bfloat16


def test_no_rows_launch_nothing(asked: list[tuple[str, str, str, int]]) -> None:
    values, scales = ops.quantise(torch.empty(0, 64))
    assert values.shape == (0, 64)
    assert scales.shape == (0, 2)
    assert ops.dequantise(values, scales).shape == (0, 64)
    assert asked == []


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (torch.zeros(2, 48), "its last dimension is no multiple of 32"),
        (torch.zeros(2, 64, dtype=torch.float16), "not bfloat16 or float32"),
        (torch.zeros(64, 2).t(), "not contiguous"),
        (torch.zeros(65)[1:].view(2, 32), "not aligned to 16 bytes"),
        (torch.zeros(()), "its last dimension is no multiple of 32"),
    ],
)
def test_what_a_kernel_would_misread_is_refused(x: torch.Tensor, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ops.quantise(x)


@pytest.mark.usefixtures("asked")
def test_outputs_of_another_form_are_refused_by_name() -> None:
    x = torch.zeros(2, 64)
    with pytest.raises(ValueError, match=r"values: dtype torch.uint8, not torch.float8_e4m3fn"):
        ops.quantise(x, values=torch.empty(2, 64, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"scales: shape \(2, 1\), not \(2, 2\)"):
        ops.quantise(x, scales=torch.empty(2, 1, dtype=torch.uint8))
    values, scales = ops.quantise(x)
    with pytest.raises(ValueError, match="scales: shape"):
        ops.dequantise(values, scales[:1])
    with pytest.raises(ValueError, match="x: dtype"):
        ops.dequantise(values, scales, dtype=torch.float32, x=torch.empty(2, 64, dtype=torch.bfloat16))


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("case", bench.cases(), ids=lambda case: case.name)
@pytest.mark.parametrize("kind", ["random", "extreme"])
def test_a_bench_case_finds_the_reference_right_and_one_changed_bit_wrong(case: bench.Cast, kind: str) -> None:
    rows = 3
    inputs = case.inputs({}, rows, kind, torch.Generator().manual_seed(1))
    outputs = {name: torch.empty(one.shape, dtype=one.dtype) for name, one in case.outputs({}, rows).items()}
    case.run({}, inputs, outputs)
    wanted = case.reference({}, inputs)
    assert case.compare({}, inputs, outputs, wanted).problems == ()
    moved = sum(tensor.nbytes for tensor in (*inputs.values(), *outputs.values()))
    assert case.moved_bytes({}, rows) == moved
    for tensor in outputs.values():
        tensor.view(torch.uint8)[-1, -1] ^= 1
    assert len(case.compare({}, inputs, outputs, wanted).problems) == len(outputs)


def test_the_hardest_inputs_hold_what_they_are_named_for() -> None:
    for dtype in (torch.bfloat16, torch.float32):
        x = bench.extreme((4000, 32), dtype, torch.Generator().manual_seed(2)).float()
        smallest = torch.finfo(dtype).smallest_normal
        for kind in (x.isnan(), x.isinf(), (x.abs() < smallest) & (x != 0), (x == 0) & x.signbit()):
            assert kind.any()
        finite = x[~x.isnan().any(dim=1) & ~x.isinf().any(dim=1)].abs().amax(dim=1)
        fraction = torch.frexp(finite)[0]
        assert (fraction == 448 / 512).any()
        assert ((fraction > 448 / 512) & (fraction < 451 / 512)).any()
