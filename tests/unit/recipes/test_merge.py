# SPDX-License-Identifier: Apache-2.0
"""A shape's tables over what all shapes share."""

from __future__ import annotations

from derive.canonical import Json
from derive.recipes.merge import find, leaves, merge, place, prune, removals

WHY: Json = {"absent": "why"}


def test_tables_merge_key_by_key_at_any_depth() -> None:
    shared: dict[str, Json] = {"a": {"x": 1, "deep": {"p": 1, "q": 2}}, "b": 1}
    own: dict[str, Json] = {"a": {"y": 2, "deep": {"q": 3}}}
    assert prune(merge(shared, own)) == {"a": {"x": 1, "y": 2, "deep": {"p": 1, "q": 3}}, "b": 1}


def test_lists_numbers_and_decimals_are_replaced() -> None:
    shared: dict[str, Json] = {"list": [1, 2], "number": 1, "decimal": {"decimal": "0.82"}, "empty": "x"}
    own: dict[str, Json] = {"list": [3], "number": {"decimal": "1.5"}, "decimal": {"decimal": "0.9"}, "empty": ""}
    assert prune(merge(shared, own)) == own


def test_what_is_absent_is_removed_whatever_it_was() -> None:
    shared: dict[str, Json] = {"a": {"x": 1, "y": {"z": 1}}, "b": 1, "c": [1]}
    assert prune(merge(shared, {"a": {"y": WHY}, "b": WHY, "c": WHY})) == {"a": {"x": 1}}
    assert prune(merge(shared, {"a": WHY})) == {"b": 1, "c": [1]}


def test_a_table_over_something_else_stands_alone() -> None:
    assert prune(merge({"a": 1}, {"a": {"x": 2}})) == {"a": {"x": 2}}
    assert prune(merge({"a": {"x": 1}}, merge({"a": WHY}, {"a": {"y": 2}}))) == {"a": {"y": 2}}


def test_nothing_that_was_merged_is_changed_by_it() -> None:
    shared: dict[str, Json] = {"a": {"x": {"y": 1}}}
    own: dict[str, Json] = {"a": {"x": {"z": 2}}}
    merged = prune(merge(shared, own))
    place(merged, ("a", "x", "y"), 9)
    assert (shared, own) == ({"a": {"x": {"y": 1}}}, {"a": {"x": {"z": 2}}})


def test_a_value_is_found_by_its_path_and_so_is_its_removal() -> None:
    tables: dict[str, Json] = {"a": {"x": 1, "y": WHY, "d": {"decimal": "1.5"}}}
    assert find(tables, ("a", "x")) == 1
    assert find(tables, ("a", "y")) == WHY
    assert find(tables, ("a", "d")) == {"decimal": "1.5"}
    assert find(tables, ("a", "d", "decimal")) is None
    assert find(tables, ("a", "x", "deeper")) is None
    assert list(removals(tables)) == [("a", "y")]


def test_leaves_are_what_no_table_is_and_tables_that_are_empty() -> None:
    tables: dict[str, Json] = {"a": {"x": [{}], "e": {}}, "d": {"decimal": "1.5"}}
    assert list(leaves(tables)) == [(("a", "x"), [{}]), (("a", "e"), {}), (("d",), {"decimal": "1.5"})]
