# SPDX-License-Identifier: Apache-2.0
"""KV tokens: one deployment fitted, the others predicted; formats; what a request takes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from derive.memory.facts import Measured
from derive.memory.kv import FORMATS, Layout, capacity, fitted_layout, layouts, tokens_by_rate, window_blocks
from support.ledgers import facts

FACTS = facts()
RING, TRIANGLE, SMALL_PAGES = (FACTS.measured[name] for name in ("r6d-tp4", "r6-tp3", "r5k-tp3-4k"))


@pytest.mark.parametrize(("fitted", "predicted"), [(RING, TRIANGLE), (TRIANGLE, RING)])
def test_the_layout_that_one_deployment_gives_predicts_the_tokens_of_the_other(
    fitted: Measured, predicted: Measured
) -> None:
    layout = fitted_layout(fitted, FACTS.cache)
    assert capacity(predicted.conditions, FACTS.cache, layout=layout).tokens == predicted.kv_tokens


@pytest.mark.parametrize(("fitted", "predicted"), [(RING, TRIANGLE), (TRIANGLE, RING)])
def test_bytes_a_token_of_one_deployment_alone_predict_the_other_within_three_percent(
    fitted: Measured, predicted: Measured
) -> None:
    tokens = tokens_by_rate(fitted, predicted.conditions.kv_bytes)
    assert predicted.kv_tokens is not None
    assert abs(tokens - predicted.kv_tokens) * 100 <= 3 * predicted.kv_tokens


def test_bytes_a_token_alone_err_by_a_third_where_the_context_is_short() -> None:
    assert SMALL_PAGES.kv_tokens is not None
    tokens = tokens_by_rate(RING, SMALL_PAGES.conditions.kv_bytes)
    assert round(100 * tokens / SMALL_PAGES.kv_tokens) == 133


@pytest.mark.parametrize("ran", [RING, TRIANGLE, SMALL_PAGES], ids=lambda ran: ran.name)
def test_one_deployments_tokens_leave_one_layout_of_all_that_may_be(ran: Measured) -> None:
    assert layouts(ran, FACTS.cache) == (Layout(window_block=128, groups=15),)


def test_what_stands_in_for_a_layout_that_was_not_fitted_is_the_one_that_was() -> None:
    form = FORMATS["records"]
    found = fitted_layout(RING, FACTS.cache)
    assert (form.window_block, capacity(RING.conditions, FACTS.cache).window_groups) == (128, 15)
    assert found == Layout(window_block=form.window_block, groups=15)


def test_tokens_that_no_layout_gives_are_fitted_by_the_nearest_number_of_groups() -> None:
    odd = replace(RING, kv_tokens=8580000)
    assert layouts(odd, FACTS.cache) == ()
    assert fitted_layout(odd, FACTS.cache) == Layout(window_block=128, groups=15)


def test_the_ring_has_the_blocks_that_were_reported() -> None:
    found = capacity(RING.conditions, FACTS.cache)
    assert (found.blocks, found.block_bytes, found.token_bytes) == (49483, 227840, Fraction(890))
    assert found.windows_hundredths == 818


@pytest.mark.parametrize(("key", "token", "block"), [(None, 1790, 460224), (68, 1630, 419904)])
def test_the_image_of_today_takes_twice_the_bytes_a_token(key: int | None, token: int, block: int) -> None:
    conditions = replace(RING.conditions, kv_format="vllm-0.33", index_key_bytes=key)
    found = capacity(conditions, FACTS.cache)
    assert (found.token_bytes, found.block_bytes) == (Fraction(token), block)


def test_pages_of_todays_format_are_rounded_up_and_window_layers_share_what_a_block_holds() -> None:
    found = capacity(replace(RING.conditions, kv_format="vllm-0.33"), FACTS.cache)
    assert (found.window_groups, found.window_blocks, found.request_blocks) == (2, 517, 4096 + 2 * 517 + 1)
    assert found.tokens == 5006230


def test_a_window_group_takes_what_the_steps_under_way_hold() -> None:
    assert window_blocks(RING.conditions, FACTS.cache, 128) == 130
    assert window_blocks(replace(RING.conditions, steps=1), FACTS.cache, 128) == 66


def test_a_context_shorter_than_a_window_needs_no_more_blocks_than_itself() -> None:
    assert window_blocks(replace(RING.conditions, context=100), FACTS.cache, 128) == 2


def test_the_least_pool_is_that_of_one_request() -> None:
    found = capacity(RING.conditions, FACTS.cache)
    exact = capacity(replace(RING.conditions, kv_bytes=found.least_bytes), FACTS.cache)
    assert (exact.tokens, exact.windows_hundredths) == (1048576, 100)


def test_tokens_that_nobody_reported_fit_nothing() -> None:
    with pytest.raises(ValueError, match="no KV tokens"):
        fitted_layout(replace(RING, kv_tokens=None), FACTS.cache)
    with pytest.raises(ValueError, match="no KV tokens"):
        tokens_by_rate(replace(RING, kv_tokens=None), 1)
