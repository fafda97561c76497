# SPDX-License-Identifier: Apache-2.0
"""The ledger: order and sum of its lines, what fits, the line that breaks a shape, and the next step."""

from __future__ import annotations

from typing import Any

import pytest

from derive.errors import InputErrors
from derive.memory.ledger import Ledger, gib, judge, ledger, problems, unfit
from support.ledgers import DATA, FILE, FORMER, GIB, MEMORY, facts, fitted_to, shape

LINES = [
    "weights",
    "Engram",
    "KV cache",
    "graph capture",
    "activations",
    "display carve-out",
    "NCCL buffers",
    "page tables",
    "host and processes",
    "guard floor",
]


def ledger_of(name: str = "tp4-ring", memory: Any = MEMORY, **arguments: Any) -> Ledger:
    return ledger(shape(name, memory, **arguments), facts())


def test_lines_stand_in_their_order() -> None:
    assert list(dict.fromkeys(row.line for row in ledger_of().rows)) == LINES


@pytest.mark.parametrize("name", ["tp4-ring", "tp3-triangle", "tp3-triangle-4k"])
def test_every_shape_fits_with_the_tables_on_disk(name: str) -> None:
    found = ledger_of(name)
    assert found.fits
    assert problems(found) == []
    assert unfit(found) is None


@pytest.mark.parametrize(
    ("name", "over"), [("tp4-ring", "47.21"), ("tp3-triangle", "62.94"), ("tp3-triangle-4k", "62.94")]
)
def test_no_shape_fits_with_the_tables_in_memory_and_their_line_is_named(name: str, over: str) -> None:
    found = ledger_of(name, {**MEMORY, "engram": "memory"})
    [problem] = problems(found)
    assert found.breaks is not None
    assert found.breaks.line == "Engram"
    assert problem.where == f"recipes/ds41f.toml: shapes.{name}"
    assert problem.message == (
        f"does not fit a rank's memory: Engram: tables in memory ({over} GiB) is the line that breaks it"
    )
    assert problem.hint == 'leave the tables on disk: memory.engram = "disk"'


def test_a_kv_cache_that_is_too_large_is_told_what_would_fit() -> None:
    found = ledger_of("tp3-triangle", kv_cache_memory_bytes=8 * GIB)
    [problem] = problems(found)
    most = found.fitting_kv_bytes
    assert most is not None
    assert problem.hint == f"set kv-cache-memory-bytes to {most} ({gib(most)} GiB) or less"
    assert ledger_of("tp3-triangle", kv_cache_memory_bytes=most).fits
    assert not ledger_of("tp3-triangle", kv_cache_memory_bytes=most + found.kv.block_bytes).fits


def test_the_line_that_breaks_is_the_first_at_which_the_sum_is_too_much() -> None:
    found = ledger_of(kv_cache_memory_bytes=60 * GIB)
    assert found.breaks is not None
    assert found.breaks.line == "KV cache"
    assert unfit(found) == f"KV cache: a rank would take {gib(found.total_bytes)} of 119.70 GiB"


def test_where_no_kv_cache_would_fit_more_ranks_are_the_next_step() -> None:
    found = ledger_of("tp3-triangle", {**MEMORY, "usable": "100GiB"})
    assert found.fitting_kv_bytes is None
    assert "take more ranks" in (problems(found)[0].hint or "")


def test_a_request_of_full_length_must_have_room() -> None:
    found = ledger_of(kv_cache_memory_bytes=2 * GIB)
    [problem] = problems(found)
    assert found.free_bytes > 0
    assert not found.fits
    assert problem.message == "one request of 1,048,576 tokens has no room in the KV cache"
    assert problem.hint == f"set kv-cache-memory-bytes to {found.kv.least_bytes} (2.20 GiB), which fits"
    assert ledger_of(kv_cache_memory_bytes=found.kv.least_bytes).fits


def test_where_neither_a_request_nor_more_cache_has_room_the_window_is_shortened() -> None:
    found = ledger_of("tp3-triangle", kv_cache_memory_bytes=GIB, max_model_len=4 * 2**20)
    assert "shorten max-model-len" in (problems(found)[0].hint or "")


def test_the_former_shapes_have_the_tokens_that_they_reported() -> None:
    tokens = {name: ledger_of(name, FORMER).kv.tokens for name in ("tp4-ring", "tp3-triangle", "tp3-triangle-4k")}
    assert tokens == {"tp4-ring": 8580566, "tp3-triangle": 2845543, "tp3-triangle-4k": 1348708}


@pytest.mark.parametrize(("fitted", "other"), [("r6d-tp4", "r6-tp3"), ("r6-tp3", "r6d-tp4")])
def test_mem_available_fitted_to_one_deployment_is_a_gib_off_the_other(fitted: str, other: str) -> None:
    held = {(one.deployment, one.quantity): one for one in ledger(shape(), fitted_to(fitted)).held}
    assert held[fitted, "MemAvailable"].fitted
    assert held[fitted, "MemAvailable"].error == 0
    assert GIB // 2 < abs(held[other, "MemAvailable"].error) < GIB
    assert abs(held[other, "weights"].error) < GIB // 20
    assert held[other, "KV tokens"].error == 0


def test_mem_available_is_what_is_left_before_the_guards_floor() -> None:
    found = ledger_of()
    assert found.available_bytes == found.free_bytes + 3 * GIB
    assert found.total_bytes + found.free_bytes == found.usable_bytes


def test_another_engines_deployment_is_held_against_its_tokens_alone() -> None:
    apart = [one for one in ledger_of().held if one.other_engine]
    assert {(one.deployment, one.quantity) for one in apart} == {
        ("r5k-tp3-4k", "KV tokens"),
        ("r5k-tp3-4k", "KV tokens by rate"),
    }


def test_tokens_are_marked_as_fitted_or_with_what_their_prediction_took() -> None:
    told = {(one.deployment, one.quantity): (one.fitted, one.taken) for one in ledger_of().held if one.in_tokens}
    assert told == {
        ("r6d-tp4", "KV tokens"): (True, ""),
        ("r6-tp3", "KV tokens"): (False, "layout of r6d-tp4"),
        ("r6-tp3", "KV tokens by rate"): (False, "bytes a token of r6d-tp4, no layout"),
        ("r5k-tp3-4k", "KV tokens"): (False, "layout of r6d-tp4"),
        ("r5k-tp3-4k", "KV tokens by rate"): (False, "bytes a token of r6d-tp4, no layout"),
    }


def test_a_start_that_the_startup_guard_may_kill_is_told() -> None:
    assert ledger_of().startup_short_bytes == 0
    assert 0 < ledger_of("tp3-triangle").startup_short_bytes < 2 * GIB


def test_a_shape_that_says_nothing_of_memory_has_no_ledger() -> None:
    assert judge(shape(memory={}), {}) is None


def test_facts_are_read_from_the_file_that_the_recipe_names() -> None:
    found = judge(shape(), {FILE: DATA})
    assert found is not None
    assert found.rows == ledger_of().rows


def test_facts_that_are_not_there_are_named() -> None:
    with pytest.raises(InputErrors) as caught:
        judge(shape(), {})
    [problem] = caught.value.problems()
    assert (problem.where, problem.message) == ("recipes/ds41f.toml: memory.facts", f"there is no {FILE}")


def test_all_that_is_wrong_with_a_shape_is_said_at_once() -> None:
    memory = {"usable": "much", "engram": "tape", "kv-format": "records", "formats": {"head": "int2"}, "spare": 1}
    with pytest.raises(InputErrors) as caught:
        ledger(shape(memory=memory, kv_cache_memory_bytes=None, max_num_seqs="many"), facts())
    assert [(one.where.partition(": ")[2], one.message) for one in caught.value.problems()] == [
        ("arguments.kv-cache-memory-bytes", "the memory ledger needs this option"),
        ("arguments.max-num-seqs", "is to be an integer above 0"),
        ("memory.engram", "is to be disk or memory"),
        ("memory.facts", "this key is missing"),
        ("memory.formats.head", "is to be fp32 or bf16 or packed-bf16 or mxfp8 or mxfp4"),
        ("memory.spare", "unknown key"),
        ("memory.usable", "is to be a size as text, as in 3.5GiB"),
        ("memory.usable-source", "this key is missing"),
    ]


def test_a_key_that_is_almost_one_is_told_with_it() -> None:
    with pytest.raises(InputErrors) as caught:
        ledger(shape(memory={"engrm": "disk"}), facts())
    assert {one.where.partition(": ")[2]: one.hint for one in caught.value.problems()}["memory.engrm"] == (
        "did you mean engram?"
    )


def test_a_form_of_a_tensor_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(InputErrors) as caught:
        ledger_of(memory={**MEMORY, "formats": {"heads": "bf16"}})
    assert caught.value.problems()[0].where == "recipes/ds41f.toml: memory.formats.heads"


def test_index_keys_of_four_bits_make_room_for_more_tokens() -> None:
    smaller = ledger_of(attention_config={"indexer_kv_dtype": "mxfp4"}).kv
    assert smaller.tokens > ledger_of().kv.tokens
    assert smaller.token_bytes == 1630


@pytest.mark.parametrize(
    ("sizes", "largest", "count"),
    [([1, 2, 4], 96, 3), (None, 96, 15), (None, None, 15), (None, 4, 3)],
)
def test_graphs_are_those_named_or_those_that_vllm_makes(
    sizes: list[int] | None, largest: int | None, count: int
) -> None:
    config = {"cudagraph_capture_sizes": sizes} if sizes else {}
    found = ledger_of(compilation_config=config, max_cudagraph_capture_size=largest)
    assert len(found.conditions.captured) == count


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0.00"), (GIB, "1.00"), (-GIB // 2, "-0.50"), (GIB // 200, "0.00"), (GIB // 200 + 1, "0.01"), (-1, "0.00")],
)
def test_sizes_are_written_in_gib_with_two_decimals(size: int, text: str) -> None:
    assert gib(size) == text
