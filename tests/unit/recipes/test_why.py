# SPDX-License-Identifier: Apache-2.0
"""Why a shape has a value."""

from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.recipes.rules import rule_named
from derive.recipes.why import known, why
from support.recipes import edited, resolved

TRIANGLE = 'tuning = "tp3"'


def test_a_value_that_was_written_names_its_place() -> None:
    assert why(resolved(), "environment.SET") == (
        "environment.SET = here",
        "  written    recipes/small.toml: environment.SET",
    )
    assert why(resolved(), "SET") == why(resolved(), "environment.SET")


def test_an_empty_value_is_seen() -> None:
    assert why(resolved(), "EMPTY")[0] == 'environment.EMPTY = ""'


def test_a_shape_s_own_value_names_what_it_stands_above() -> None:
    one = resolved(edited((TRIANGLE, f"{TRIANGLE}\narguments = {{ max-num-seqs = 2 }}")), "triangle")
    assert why(one, "max-num-seqs") == (
        "arguments.max-num-seqs = 2",
        "  written    recipes/small.toml: shapes.triangle.arguments.max-num-seqs",
        "  instead of 4 (recipes/small.toml: arguments.max-num-seqs)",
    )


def test_a_derived_value_names_its_rule_and_what_the_rule_read() -> None:
    rule = rule_named("long-prefill")
    assert rule is not None
    assert why(resolved(), "--long-prefill-token-threshold") == (
        "arguments.long-prefill-token-threshold = 500",
        f"  rule       long-prefill: {rule.text}",
        "  from       arguments.max-num-batched-tokens = 512",
        "             arguments.max-num-seqs = 4",
        "             arguments.speculative-config.num_speculative_tokens = 2",
    )


def test_a_value_of_the_fabric_names_its_file_and_meaning() -> None:
    lines = why(resolved(), "NCCL_BUFFSIZE")
    assert lines[:2] == (
        "environment.NCCL_BUFFSIZE = 4194304",
        "  written    fabric/tuning/tp4.toml: nccl.NCCL_BUFFSIZE",
    )
    assert lines[-1].startswith("  meaning    bytes of the buffer")


def test_what_was_removed_says_why_and_what_it_was() -> None:
    text = edited((TRIANGLE, f'{TRIANGLE}\nenvironment = {{ SET = {{ absent = "not here" }} }}'))
    assert why(resolved(text, "triangle"), "SET") == (
        "environment.SET: removed",
        "  why        not here",
        "  written    recipes/small.toml: shapes.triangle.environment.SET",
        "  instead of here (recipes/small.toml: environment.SET)",
    )


def test_what_was_dropped_says_why_by_its_name_with_or_without_the_value() -> None:
    text = edited(("[environment]", '[dropped]\n"load-format=old" = "it fails"\nGONE = "unread"\n[environment]'))
    one = resolved(text)
    assert why(one, "GONE") == ("GONE: no longer there", "  why        unread")
    assert why(one, "load-format") == why(one, "load-format=old")


def test_a_table_is_explained_key_by_key() -> None:
    lines = why(resolved(), "speculative-config")
    assert [line.partition(" = ")[0].rpartition(".")[2] for line in lines if not line.startswith(" ")] == [
        "attention_backend",
        "draft_tensor_parallel_size",
        "method",
        "num_speculative_tokens",
    ]


def test_a_name_that_stands_in_two_tables_is_explained_in_both() -> None:
    heads = [line for line in why(resolved(), "floor") if not line.startswith(" ")]
    assert heads == ["guard.startup.floor = 5GiB", "guard.steady.floor = 3GiB"]


def test_an_option_and_a_table_of_one_name_are_both_explained_and_dashes_mean_the_option() -> None:
    text = edited(
        ("max-num-seqs = 4", 'max-num-seqs = 4\nhost = "0.0.0.0"'),
        ("[environment]", '[host]\ndriver = "1"\n[environment]'),
    )
    heads = [line for line in why(resolved(text), "host") if not line.startswith(" ")]
    assert heads == ["arguments.host = 0.0.0.0", "host.driver = 1"]
    assert why(resolved(text), "--host")[0] == heads[0]


def test_what_each_node_has_of_its_own_says_whence() -> None:
    assert why(resolved(), "NCCL_IB_HCA")[0] == "environment.NCCL_IB_HCA: each node has its own"
    assert "node-rank: each node's rank" in why(resolved(), "--headless")[1]


def test_an_option_that_is_off_is_found_by_its_negation() -> None:
    one = resolved(edited(("max-num-seqs = 4", "max-num-seqs = 4\nswa = false")))
    assert why(one, "--no-swa") == why(one, "swa")


def test_capabilities_rules_and_digests_can_be_asked_for() -> None:
    assert why(resolved(), "nccl")[0] == "nccl: a capability that the image must have"
    assert why(resolved(), "capture")[0].startswith("rule capture: ")
    assert why(resolved(), "shape digest")[0].startswith("shape digest: the SHA-256")
    assert why(resolved(), "revision")[0] == "model.revision = unpinned"


def test_what_is_not_there_is_told_with_the_nearest_name() -> None:
    with pytest.raises(InputErrors) as caught:
        why(resolved(), "max-num-seq")
    (problem,) = caught.value.problems()
    assert (problem.message, problem.hint) == (
        "nothing in this shape is called 'max-num-seq'",
        "did you mean max-num-seqs?",
    )


def test_every_name_that_is_known_is_explained() -> None:
    one = resolved()
    assert all(why(one, name) for name in known(one))
