# SPDX-License-Identifier: Apache-2.0
"""Merging of recipes: in any grouping, from any order of keys, with removals that win; and what resolving keeps."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.canonical import Json
from derive.recipes.arguments import words
from derive.recipes.merge import find, leaves, merge, prune, removals
from derive.recipes.resolve import resolve
from derive.recipes.rules import capture_sizes
from derive.toml import parse_toml
from support.recipes import edited, loaded, resolved

KEYS = st.sampled_from("abc")
SCALARS = st.one_of(
    st.integers(-3, 3),
    st.booleans(),
    st.sampled_from(["", "x"]),
    st.just({"decimal": "0.5"}),
    st.lists(st.integers(0, 2), max_size=2),
)
REMOVALS = st.just({"absent": "why"})
TABLES = st.dictionaries(
    KEYS,
    st.recursive(SCALARS | REMOVALS, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=8),
    max_size=3,
)


def reordered(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return value


@settings(max_examples=50)
@given(TABLES, TABLES, TABLES)
def test_three_layers_merge_the_same_in_any_grouping(
    first: dict[str, Json], second: dict[str, Json], third: dict[str, Json]
) -> None:
    assert prune(merge(merge(first, second), third)) == prune(merge(first, merge(second, third)))


@settings(max_examples=50)
@given(TABLES, TABLES)
def test_the_order_of_keys_decides_nothing(below: dict[str, Json], above: dict[str, Json]) -> None:
    other_below, other_above = reordered(below), reordered(above)
    assert isinstance(other_below, dict)
    assert isinstance(other_above, dict)
    assert prune(merge(below, above)) == prune(merge(other_below, other_above))


@settings(max_examples=50)
@given(TABLES, TABLES)
def test_what_is_removed_is_gone_and_no_removal_is_left(below: dict[str, Json], above: dict[str, Json]) -> None:
    merged = prune(merge(below, above))
    assert [path for path in removals(above) if find(merged, path) is not None] == []
    assert list(removals(merged)) == []


@settings(max_examples=50)
@given(TABLES, TABLES)
def test_every_value_above_stands_and_every_value_comes_from_one_of_the_two(
    below: dict[str, Json], above: dict[str, Json]
) -> None:
    merged = prune(merge(below, above))
    plain = prune(above)
    for path, value in leaves(plain):
        if value != {}:
            assert find(merged, path) == value
    for path, value in leaves(merged):
        if value != {}:
            assert value in (find(below, path), find(above, path))


@settings(max_examples=50)
@given(TABLES)
def test_nothing_over_a_table_and_a_table_over_nothing_is_the_table(table: dict[str, Json]) -> None:
    assert prune(merge({}, table)) == prune(merge(table, {})) == prune(table)
    assert prune(merge(table, table)) == prune(table)


@settings(max_examples=10)
@given(
    sequences=st.integers(1, 64),
    drafts=st.integers(0, 8),
    room=st.integers(1, 10000),
    shape=st.sampled_from(["ring", "triangle"]),
)
def test_derived_values_agree_with_what_they_follow_from(sequences: int, drafts: int, room: int, shape: str) -> None:
    rows = sequences * (1 + drafts)
    text = edited(
        ("max-num-seqs = 4", f"max-num-seqs = {sequences}"),
        ("num_speculative_tokens = 2", f"num_speculative_tokens = {drafts}"),
        ("max-num-batched-tokens = 512", f"max-num-batched-tokens = {rows + room}"),
    )
    one = resolved(text, shape)
    nodes = {"ring": 4, "triangle": 3}[shape]
    assert one.nodes == one.arguments["tensor-parallel-size"] == one.arguments["nnodes"] == nodes
    assert find(one.arguments, ("speculative-config", "draft_tensor_parallel_size")) == nodes
    assert one.arguments["long-prefill-token-threshold"] == room
    assert one.arguments["max-cudagraph-capture-size"] == rows
    assert find(one.arguments, ("compilation-config", "cudagraph_capture_sizes")) == capture_sizes(rows)


@settings(max_examples=50)
@given(st.integers(1, 2000))
def test_capture_sizes_rise_from_one_to_the_most(most: int) -> None:
    sizes = capture_sizes(most)
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (1, most)
    assert all(after - before <= 8 for before, after in pairwise(sizes))


@settings(max_examples=4)
@given(st.randoms(use_true_random=False))
def test_the_order_of_a_file_moves_no_word_and_no_digest(random: object) -> None:
    shuffle = random.shuffle  # type: ignore[attr-defined]
    text = edited()
    head, *tables = text.split("\n\n")
    blocks = ["\n".join([block.splitlines()[0], *_shuffled(block.splitlines()[1:], shuffle)]) for block in tables]
    shuffle(blocks)
    other = "\n\n".join(["\n".join(_shuffled(head.splitlines(), shuffle)), *blocks])
    assert parse_toml(other.encode(), "")[0] == parse_toml(text.encode(), "")[0]
    for shape in ("ring", "triangle"):
        assert words(resolve(loaded(other), shape)) == words(resolved(text, shape))
        assert resolved(other, shape) == resolved(text, shape)
        assert list(resolved(other, shape).environment) == sorted(resolved(text, shape).environment)
    assert loaded(other).digest() == loaded(text).digest()


def _shuffled(lines: list[str], shuffle: object) -> list[str]:
    found = [*lines]
    shuffle(found)  # type: ignore[operator]
    return found
