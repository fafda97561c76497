# SPDX-License-Identifier: Apache-2.0
"""What tensors take of a rank: division, padding, forms; held against what two deployments measured."""

from __future__ import annotations

import pytest

from derive.memory.facts import FORMS, Tensor
from derive.memory.weights import engram_bytes, share, shares, stored_bytes, total
from support.ledgers import GIB, facts

FACTS = facts()


def named(name: str) -> Tensor:
    return next(tensor for tensor in FACTS.tensors if tensor.name == name)


def test_a_replicated_tensor_is_whole_on_every_rank() -> None:
    assert {share(named("wq-a"), ranks, {}).own for ranks in (1, 3, 4)} == {40 * 1280 * 5120 * 33 // 32}


def test_three_ranks_pad_64_heads_to_72() -> None:
    part = share(named("wq-b"), 3, {})
    assert part.own + part.padding == 40 * 3 * 4096 * 1280 * 33 // 32
    assert share(named("wq-b"), 4, {}).padding == 0


@pytest.mark.parametrize(
    ("name", "extent"), [("engram-wkv", 25632), ("embedding", 129282), ("w2", 2304), ("shared-w1-w3", 2304)]
)
def test_three_ranks_pad_each_axis_to_whole_units(name: str, extent: int) -> None:
    tensor, part = named(name), share(named(name), 3, {})
    other = tensor.columns if tensor.split == "rows" else tensor.rows
    assert part.own + part.padding == tensor.count * (extent // 3 * other * FORMS[tensor.form] // 32)


def test_an_expert_at_four_ranks_is_four_and_a_half_mib() -> None:
    one = (share(named("w1-w3"), 4, {}).own + share(named("w2"), 4, {}).own) // (40 * 384)
    assert one == 1152 * 5120 * 17 // 32 + 5120 * 576 * 17 // 32


def test_an_engine_may_keep_a_tensor_in_another_form() -> None:
    plain, packed = share(named("head"), 4, {}).own, share(named("head"), 4, {"head": "packed-bf16"}).own
    assert packed * 4 == plain * 3


def test_a_size_of_which_no_more_is_known_is_taken_as_it_is() -> None:
    assert share(named("vision"), 4, {}).own == share(named("vision"), 3, {}).own == 9 * GIB // 10


def test_the_table_misses_what_both_deployments_measured_by_the_same() -> None:
    missing = {}
    for ran in FACTS.measured.values():
        if ran.weights is not None:
            parts = shares(FACTS.tensors, ran.conditions.ranks, ran.conditions.formats)
            missing[ran.name] = ran.weights - total(parts)
    assert abs(missing["r6d-tp4"] - missing["r6-tp3"]) < GIB // 20
    assert 0 < missing["r6d-tp4"] < GIB


@pytest.mark.parametrize(("ranks", "heads"), [(4, 6), (3, 8), (5, 5)])
def test_engram_tables_are_divided_by_whole_heads(ranks: int, heads: int) -> None:
    assert FACTS.engram is not None
    assert engram_bytes(FACTS.engram, ranks) == 2 * heads * 16_000_000 * 264


def test_a_checkpoint_is_as_large_as_its_tensors_and_tables() -> None:
    assert FACTS.engram is not None
    assert stored_bytes((), FACTS.engram) == 2 * 384_000_000 * 264
    assert stored_bytes((named("wq-a"),), None) == 40 * 1280 * 5120 * 1025 // 1024
