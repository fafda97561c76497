# SPDX-License-Identifier: Apache-2.0
"""``[[tool.derive.trust.outputs]]``: read, or everything that is wrong with it said."""

from __future__ import annotations

import pytest

from derive.trust.policy import OutputRule, parse_policy

KEYS = {
    "ann": "ed25519:eJZ/5U/LLbe8p2Frz0KjnS4ng27VTjMVZp3H6FL3icY=",
    "ben": "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
}


def problems(*rules: object, threshold: int = 1) -> list[tuple[str, str]]:
    table = {"keys": KEYS, "threshold": threshold, "outputs": list(rules)}
    return sorted((one.where, one.message) for one in parse_policy(table, "t")[1])


def test_rules_are_read_in_their_order_and_take_what_they_leave_out_from_the_table() -> None:
    rules = [
        {"derivations": ["kernel-*"], "keys": ["ben"], "threshold": 1},
        {"builders": ["image"]},
    ]
    policy, found = parse_policy({"keys": KEYS, "threshold": 2, "outputs": rules}, "t")
    assert found == []
    assert policy is not None
    assert policy.outputs == (
        OutputRule(derivations=("kernel-*",), keys=("ben",), threshold=1),
        OutputRule(builders=("image",), keys=("ann", "ben"), threshold=2),
    )
    assert policy.rule_for("kernel-a", "script").keys == ("ben",)
    assert policy.rule_for("x", "image") == policy.outputs[1]
    assert policy.rule_for("x", "script") == OutputRule(keys=("ann", "ben"), threshold=2)


@pytest.mark.parametrize(
    ("rule", "place", "message"),
    [
        ({"keys": ["ann"]}, "", "says nothing of which outputs it is about"),
        ({"derivations": [""], "builders": ["x"]}, ".derivations", "not a list of names"),
        ({"derivations": "a"}, ".derivations", "not a list of names"),
        ({"builders": [1]}, ".builders", "not a list of names"),
        ({"derivations": ["a"], "keys": ["bin"]}, ".keys[0]", "no key is called 'bin'"),
        ({"derivations": ["a"], "keys": ["ann", "ann"]}, ".keys[1]", "ann is there twice"),
        ({"derivations": ["a"], "keys": ["ann"], "threshold": 2}, ".threshold", "2 keys must sign, and 1 key can"),
        ({"derivations": ["a"], "threshold": 0}, ".threshold", "not a whole number above 0"),
        ({"derivations": ["a"], "threshold": True}, ".threshold", "not a whole number above 0"),
        ({"derivations": ["a"], "more": 1}, ".more", "unknown key"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said_with_its_place(rule: object, place: str, message: str) -> None:
    assert (f"t.outputs[0]{place}", message) in problems(rule)


def test_a_rule_with_fewer_keys_than_the_table_s_threshold_has_to_say_its_own() -> None:
    rule = {"derivations": ["a"], "keys": ["ann"]}
    assert problems(rule, threshold=2) == [("t.outputs[0].threshold", "2 keys must sign, and 1 key can")]


def test_rules_that_are_no_list_of_tables_are_refused() -> None:
    _, found = parse_policy({"keys": KEYS, "outputs": {"a": 1}}, "t")
    assert [(one.where, one.message) for one in found] == [("t.outputs", "not a list of tables")]
