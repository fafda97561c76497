# SPDX-License-Identifier: Apache-2.0
"""Two edits of twelve that act together are found in few runs, whichever they are and in whatever order all are."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from derive.bisect.edits import composed, edits_between
from derive.bisect.search import Search, Things, Verdict
from derive.bisect.values import composed_value, value_edits
from derive.toml_text import toml_text

EDITS = 12
MOST_RUNS = 40


def runs_for(order: tuple[int, ...], needed: Things) -> int:
    """Search for some edits and return how many sets were judged, A and B among them."""
    asked = {frozenset(), frozenset(order)}

    def test(things: Things) -> Verdict:
        asked.add(things)
        return Verdict.NEW if needed <= things else Verdict.OLD

    assert Search(order, test).run() == needed
    return len(asked)


def test_any_two_of_twelve_are_found_within_forty_runs() -> None:
    runs = [runs_for(tuple(range(EDITS)), frozenset(pair)) for pair in combinations(range(EDITS), 2)]
    assert max(runs) <= MOST_RUNS
    assert max(runs) <= 14  # what it takes; more is a step back


@given(st.permutations(range(EDITS)), st.sets(st.integers(0, EDITS - 1), min_size=1, max_size=4))
def test_the_order_of_edits_decides_how_many_runs_and_never_the_answer(order: list[int], needed: set[int]) -> None:
    assert runs_for(tuple(order), frozenset(needed)) <= MOST_RUNS


keys = st.sampled_from(["a", "b", "c", "name"])
leaves = st.one_of(st.integers(-9, 9), st.booleans(), st.sampled_from(["x", "y", "z"]))
named = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["one", "two", "three"]), "value": leaves}),
    max_size=3,
    unique_by=lambda one: one["name"],
)
values = st.recursive(
    st.one_of(leaves, named), lambda inner: st.dictionaries(keys.filter(lambda key: key != "name"), inner, max_size=3)
)
tables = st.dictionaries(keys, values, max_size=4)


@given(tables, tables, st.data())
def test_no_edits_leave_a_document_as_it_is_and_all_of_them_make_it_the_other(
    before: dict[str, Any], after: dict[str, Any], data: st.DataObject
) -> None:
    edits = [edit.key for edit in value_edits(before, after)]
    assert len(set(edits)) == len(edits)
    assert composed_value(before, after, []) == before
    assert composed_value(before, after, edits) == after
    some = data.draw(st.sets(st.sampled_from(edits))) if edits else set()
    rest = [edit.key for edit in value_edits(composed_value(before, after, some), after)]
    assert len(rest) <= len(edits)


@given(tables, tables, st.dictionaries(st.sampled_from(["p/x", "p/y"]), st.binary(max_size=3)))
def test_a_project_with_all_edits_is_the_other_to_the_byte(
    before: dict[str, Any], after: dict[str, Any], more: dict[str, bytes]
) -> None:
    states = [{"t.toml": toml_text(one).encode(), **others} for one, others in ((before, {}), (after, more))]
    edits = edits_between(states[0], states[1])
    assert composed(states[0], states[1], []) == states[0]
    assert composed(states[0], states[1], edits) == states[1]
