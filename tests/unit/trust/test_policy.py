# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from derive.errors import CheckFailed
from derive.trust.dsse import Envelope, Signature, sign
from derive.trust.keys import PublicKey, SigningKey
from derive.trust.policy import Policy, judge, parse_policy, require_trusted

KIND = "application/example"
ANN, BEN, EVE = (SigningKey(bytes([number]) * 32) for number in (1, 2, 3))
BOTH = {"ann": str(ANN.public), "ben": str(BEN.public)}


def policy(threshold: int = 1, **keys: PublicKey) -> Policy:
    return Policy(keys=keys or {"ann": ANN.public, "ben": BEN.public}, threshold=threshold)


def signed(*keys: SigningKey) -> Envelope:
    return sign(KIND, b"payload", keys)


# Judging


def test_one_trusted_signature_is_enough_where_one_is_asked_for() -> None:
    assert judge(signed(BEN), policy(), ()).trusted == ("ben",)
    assert judge(signed(BEN), policy(), ()).holds


def test_a_key_that_the_project_does_not_name_does_not_count() -> None:
    found = judge(signed(EVE), policy(), ())
    assert not found.holds
    assert found.unknown == (EVE.public.id,)


def test_as_many_different_keys_must_sign_as_the_threshold_says() -> None:
    assert not judge(signed(ANN, ANN), policy(2), ()).holds
    assert not judge(signed(ANN, EVE), policy(2), ()).holds
    assert judge(signed(ANN, BEN), policy(2), ()).holds


def test_one_signature_repeated_counts_once() -> None:
    (one,) = signed(ANN).signatures
    twice = Envelope(
        payload_type=KIND, payload=b"payload", signatures=(one, Signature(key=BEN.public.id, value=one.value))
    )
    found = judge(twice, policy(2), ())
    assert found.trusted == ("ann",)
    assert found.wrong == ("ben",)
    assert not found.holds


def test_a_revoked_key_does_not_count() -> None:
    found = judge(signed(ANN, BEN), policy(2), {BEN.public.id})
    assert (found.trusted, found.revoked, found.holds) == (("ann",), ("ben",), False)
    assert judge(signed(ANN, BEN), policy(1), {BEN.public.id}).holds


def test_a_signature_over_something_else_does_not_count() -> None:
    moved = Envelope(payload_type=KIND, payload=b"other", signatures=signed(ANN).signatures)
    found = judge(moved, policy(), ())
    assert (found.trusted, found.wrong, found.holds) == ((), ("ann",), False)


def test_nobody_is_trusted_where_no_key_is_named() -> None:
    assert not judge(signed(ANN), Policy(keys={}, threshold=1), ()).holds


def test_the_refusal_says_what_each_signature_is_worth() -> None:
    with pytest.raises(CheckFailed) as caught:
        require_trusted(
            judge(signed(ANN, EVE), policy(2, ann=ANN.public, ben=BEN.public), {ANN.public.id}), "x.closure"
        )
    assert caught.value.exit_code == 1
    assert caught.value.message == "x.closure is not trusted"
    assert caught.value.detail == (
        "expected  signatures of 2 trusted keys",
        "got       ann, which is revoked",
        f"got       {EVE.public.id}, which the project does not trust",
    )


def test_the_refusal_of_what_nobody_signed_says_so() -> None:
    with pytest.raises(CheckFailed) as caught:
        require_trusted(judge(signed(), policy(), ()), "x")
    assert caught.value.detail == ("expected  signatures of 1 trusted key", "got       none")


def test_what_holds_passes() -> None:
    require_trusted(judge(signed(ANN), policy(), ()), "x")


# Reading


def test_a_table_reads_as_a_policy() -> None:
    found, problems = parse_policy({"keys": BOTH, "threshold": 2}, "t")
    assert problems == []
    assert found == policy(2)


def test_one_key_is_enough_where_no_threshold_stands() -> None:
    found, _ = parse_policy({"keys": BOTH}, "t")
    assert found is not None
    assert found.threshold == 1


def test_an_empty_table_trusts_nobody() -> None:
    assert parse_policy({}, "t") == (Policy(keys={}, threshold=1), [])


@pytest.mark.parametrize(
    ("table", "where", "message"),
    [
        (1, "t", "not a table"),
        ({"more": 1}, "t.more", "unknown key"),
        ({"keys": []}, "t.keys", "not a table of keys by name"),
        ({"keys": {"ann": "x"}}, "t.keys.ann", "not a public key"),
        ({"keys": {"ann": 1}}, "t.keys.ann", "not a public key"),
        ({"keys": {"ann": {"key": "x"}}}, "t.keys.ann", "not a public key"),
        ({"keys": {"a b": str(ANN.public)}}, "t.keys.a b", "not a name of letters, digits, '.', '_' and '-'"),
        ({"keys": {"../ann": str(ANN.public)}}, "t.keys.../ann", "not a name of letters, digits, '.', '_' and '-'"),
        ({"keys": {"ann": str(ANN.public), "me": str(ANN.public)}}, "t.keys.me", "the same key as ann"),
        ({"keys": BOTH, "threshold": 0}, "t.threshold", "not a whole number above 0"),
        ({"keys": BOTH, "threshold": -1}, "t.threshold", "not a whole number above 0"),
        ({"keys": BOTH, "threshold": True}, "t.threshold", "not a whole number above 0"),
        ({"keys": BOTH, "threshold": 1.0}, "t.threshold", "not a whole number above 0"),
        ({"keys": BOTH, "threshold": "1"}, "t.threshold", "not a whole number above 0"),
        ({"keys": BOTH, "threshold": 3}, "t.threshold", "3 keys must sign, and 2 keys can"),
        ({"threshold": 2}, "t.threshold", "2 keys must sign, and 0 keys can"),
    ],
)
def test_what_is_wrong_has_its_place(table: Any, where: str, message: str) -> None:
    found, problems = parse_policy(table, "t")
    assert found is None
    assert [(problem.where, problem.message) for problem in problems] == [(where, message)]


def test_everything_wrong_is_said_at_once() -> None:
    _, problems = parse_policy({"more": 1, "keys": {"ann": "x", "b/c": "y"}, "threshold": 0}, "t")
    assert len(problems) == 4


# Builders


def test_builders_are_names_of_keys() -> None:
    found, problems = parse_policy({"keys": BOTH, "builders": ["ben", "ann"]}, "t")
    assert problems == []
    assert found is not None
    assert found.builders == ("ann", "ben")


def test_everything_wrong_with_builders_is_said_at_once() -> None:
    _, problems = parse_policy({"keys": BOTH, "builders": ["ann", "ann", "bem"]}, "t")
    said = [(one.where, one.message, one.hint) for one in problems]
    assert said == [
        ("t.builders[1]", "ann is there twice", None),
        ("t.builders[2]", "no key is called 'bem'", "did you mean ben?"),
    ]
    assert parse_policy({"builders": "ann"}, "t")[1][0].message == "not a list of names of keys"
