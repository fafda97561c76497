# SPDX-License-Identifier: Apache-2.0
"""The cases that run on a GPU judge a result as the reference's page says; here the reference plays the kernel."""

from __future__ import annotations

import pytest
import torch
from ds41_kernels.packed_head import bench

COLUMNS = 320  # fewer than the head has, for the reference's sake


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> bench.Head:
    made = bench.Head(label="small", vocab=40, rows=(3,), awkward=True)
    monkeypatch.setattr(bench, "COLUMNS", COLUMNS)
    return made


@pytest.fixture
def state(case: bench.Head) -> bench.Tensors:
    return case.state(torch.device("cpu"), torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", bench.Head.kinds)
def test_the_reference_itself_passes_and_one_wrong_logit_does_not(
    case: bench.Head, state: bench.Tensors, kind: str
) -> None:
    inputs = case.inputs(state, 4, kind, torch.Generator().manual_seed(2))
    wanted = case.reference(state, inputs)
    assert {name: (one.shape, one.dtype) for name, one in case.outputs(state, 4).items()} == {
        name: (tuple(one.shape), one.dtype) for name, one in wanted.items()
    }
    assert case.compare(state, inputs, wanted, wanted).problems == ()
    for place, value in (((0, 20), 1e30), ((0, 5), 0.0), ((3, 20), torch.nan)):
        got = {"logits": wanted["logits"].clone()}
        got["logits"][place] = value
        assert case.compare(state, inputs, got, wanted).problems


def test_weights_of_the_cases_have_the_exceptions_that_the_model_has() -> None:
    weight = torch.randn(512, 5120, generator=torch.Generator().manual_seed(3)) * bench.SPREAD
    assert 0.5 < bench.pack(weight.to(torch.bfloat16), bench.BASE).exceptions / 512 < 1.2


def test_bytes_moved_are_those_of_weights_rows_and_logits(case: bench.Head, state: bench.Tensors) -> None:
    packed = 3 * 16 * COLUMNS * 3 // 2 + 3 * 17 * 4 + 3 * 36 * 4
    assert case.moved_bytes(state, 2) == packed + 2 * (COLUMNS * 2 + 40 * 4)
