# SPDX-License-Identifier: Apache-2.0
"""What holds of every ledger: sums, order of size, refusal, and records without floats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from derive.canonical import encode
from derive.memory.facts import FORMS, Tensor
from derive.memory.ledger import Ledger, gib, ledger, problems
from derive.memory.show import body
from derive.memory.weights import share
from support.ledgers import GIB, MEMORY, facts, shape

NAMES = st.sampled_from(["tp4-ring", "tp3-triangle", "tp3-triangle-4k"])
KV = st.integers(min_value=1, max_value=60 * GIB)
SEQUENCES = st.integers(min_value=1, max_value=64)
MEMORIES = st.fixed_dictionaries(
    {"engram": st.sampled_from(["disk", "memory"]), "kv-format": st.sampled_from(["records", "vllm-0.33"])}
)


def ledger_of(name: str, memory: dict[str, Any], kv_bytes: int, sequences: int = 8) -> Ledger:
    sizes = {"compilation_config": None, "max_num_seqs": sequences, "kv_cache_memory_bytes": kv_bytes}
    return ledger(shape(name, {**MEMORY, **memory}, **sizes), facts())


@given(NAMES, MEMORIES, KV, SEQUENCES)
def test_the_total_is_the_sum_of_the_lines_and_what_is_free_the_rest(
    name: str, memory: dict[str, Any], kv_bytes: int, sequences: int
) -> None:
    found = ledger_of(name, memory, kv_bytes, sequences)
    assert found.total_bytes == sum(row.bytes for row in found.rows)
    assert found.total_bytes + found.free_bytes == found.usable_bytes
    assert found.fits == (problems(found) == []) == (found.breaks is None)
    assert found.breaks is None or found.breaks in found.rows


@given(NAMES, MEMORIES, KV, KV)
def test_a_larger_kv_cache_takes_more_and_holds_no_less(
    name: str, memory: dict[str, Any], one: int, other: int
) -> None:
    small, large = (ledger_of(name, memory, size) for size in sorted((one, other)))
    assert small.kv.tokens <= large.kv.tokens
    assert small.free_bytes - large.free_bytes == abs(one - other)


@given(NAMES, SEQUENCES, SEQUENCES)
def test_more_sequences_leave_no_more_free(name: str, one: int, other: int) -> None:
    few, many = (ledger_of(name, {}, 3 * GIB, count) for count in sorted((one, other)))
    assert few.free_bytes >= many.free_bytes
    assert few.kv.tokens == many.kv.tokens


@given(NAMES, MEMORIES, KV)
def test_the_kv_cache_that_is_said_to_fit_does_and_one_block_more_does_not(
    name: str, memory: dict[str, Any], kv_bytes: int
) -> None:
    most = ledger_of(name, memory, kv_bytes).fitting_kv_bytes
    if most is not None:
        assert ledger_of(name, memory, most).fits
        block = ledger_of(name, memory, most).kv.block_bytes
        assert ledger_of(name, memory, most + block).free_bytes < 0


@given(NAMES, MEMORIES, KV)
def test_a_record_holds_integers_and_decimals_alone(name: str, memory: dict[str, Any], kv_bytes: int) -> None:
    first, second = (body(ledger_of(name, memory, kv_bytes)) for _ in range(2))
    assert encode({"derive": "test/1", "body": first}) == encode({"derive": "test/1", "body": second})


@given(
    st.integers(1, 64),
    st.integers(1, 64),
    st.integers(1, 512),
    st.sampled_from(["rows", "columns"]),
    st.sampled_from(sorted(FORMS)),
    st.integers(1, 8),
)
def test_ranks_hold_a_tensor_together_and_padding_is_less_than_a_unit_each(
    unit: int, units: int, other: int, split: Any, form: str, ranks: int
) -> None:
    extent = unit * units
    rows, columns = (extent, other * 32) if split == "rows" else (other, extent * 32)
    tensor = Tensor(name="t", group="g", rows=rows, columns=columns, form=form, split=split, unit=unit)
    if split == "columns":
        tensor = replace(tensor, unit=unit * 32)
    part, whole = share(tensor, ranks, {}), share(replace(tensor, split="none"), ranks, {})
    line = FORMS[form] * (columns // 32 if split == "rows" else rows)
    assert (part.own + part.padding) * ranks >= whole.own
    assert part.padding <= unit * line


@given(st.integers(-(2**45), 2**45))
def test_gib_are_rounded_to_the_nearest_hundredth(size: int) -> None:
    hundredths = int(gib(size).replace(".", ""))
    assert abs(hundredths * 2**30 - size * 100) * 2 <= 2**30
