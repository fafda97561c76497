# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from derive.cache.vouching import MOST_BYTES, MOST_NS, Said, contradictions, counting_keys, vouch_of
from derive.canonical import Digest, sha256
from derive.derivations.model import FlatOutput
from derive.errors import Contradicted
from derive.trust.keys import PublicKey
from derive.trust.policy import OutputRule, Policy

KEYS = {name: PublicKey(name.encode().ljust(32, b"\0")) for name in ("ann", "cat", "dan")}
STEP = sha256(b"step")
TRUE, FALSE = {"out": FlatOutput(sha256(b"true"))}, {"out": FlatOutput(sha256(b"false"))}


def said(name: str, outputs: dict[str, FlatOutput] | None = None, cache: str = "team", size: int = 1) -> Said:
    return Said(resolved=STEP, key=KEYS[name].id, cache=cache, outputs=outputs or TRUE, size_bytes=size)


def policy(threshold: int = 1, *rules: OutputRule, revoked: frozenset[Digest] = frozenset()) -> Policy:
    return Policy(keys=KEYS, threshold=threshold, outputs=rules, revoked=revoked)


def test_keys_that_ended_or_that_the_user_revoked_do_not_count() -> None:
    ended = policy(revoked=frozenset((KEYS["ann"].id,)))
    assert counting_keys(ended, {KEYS["cat"].id}) == {KEYS["dan"].id: "dan"}


def test_keys_that_agree_are_counted_once_each_wherever_they_say_it() -> None:
    names = counting_keys(policy(2), ())
    claims = [said("ann", cache="far", size=5), said("ann", size=9), said("cat")]
    found = vouch_of("hello", "script", claims, policy(2), names, ("team", "far"))
    assert found is not None
    assert (found.signers, found.caches, found.need) == (("ann", "cat"), ("team", "far"), 2)
    assert found.is_enough
    alone = vouch_of("hello", "script", claims[:2], policy(2), names, ("team", "far"))
    assert alone is not None
    assert not alone.is_enough


def test_one_key_alone_cannot_make_a_step_large_or_long() -> None:
    lie = replace(said("cat", size=2**53 - 1), duration_ns=2**53 - 1)
    honest = replace(said("ann", size=1000), duration_ns=2000)
    found = vouch_of("hello", "script", [lie, honest], policy(2), counting_keys(policy(2), ()), ("team",))
    assert found is not None
    assert (found.size_bytes, found.duration_ns, found.most_bytes) == (1000, 2000, MOST_BYTES)
    alone = vouch_of("hello", "script", [lie], policy(), counting_keys(policy(), ()), ("team",))
    assert alone is not None
    assert (alone.size_bytes, alone.duration_ns) == (MOST_BYTES, MOST_NS)


def test_a_key_that_says_too_little_does_not_keep_what_another_vouches_for_from_coming() -> None:
    found = vouch_of(
        "hello", "script", [said("cat", size=0), said("ann", size=1000)], policy(2), counting_keys(policy(2), ()), ()
    )
    assert found is not None
    assert found.most_bytes == 1000


def test_a_key_that_does_not_count_says_nothing() -> None:
    names = {KEYS["ann"].id: "ann"}
    assert vouch_of("hello", "script", [said("cat", FALSE)], policy(), names, ("team",)) is None
    found = vouch_of("hello", "script", [said("cat", FALSE), said("ann")], policy(), names, ("team",))
    assert found is not None
    assert found.signers == ("ann",)


def test_keys_that_count_and_say_two_things_are_an_alarm_however_many_agree() -> None:
    names = counting_keys(policy(), ())
    with pytest.raises(Contradicted) as caught:
        vouch_of("hello", "script", [said("ann"), said("dan"), said("cat", FALSE)], policy(), names, ("team",))
    assert caught.value.exit_code == 1
    assert caught.value.message == "hello: trusted builders contradict each other"
    detail = "\n".join(caught.value.detail)
    assert all(text in detail for text in ("ann, dan", "cat", str(TRUE["out"]), str(FALSE["out"]), str(STEP)))


def test_a_key_that_contradicts_itself_is_an_alarm() -> None:
    with pytest.raises(Contradicted):
        vouch_of("hello", "script", [said("ann"), said("ann", FALSE)], policy(), counting_keys(policy(), ()), ("team",))


def test_the_first_rule_that_fits_says_whose_word_counts() -> None:
    rule = OutputRule(derivations=("kernel-*",), keys=("dan",), threshold=1)
    names = counting_keys(policy(2, rule), ())
    claims = [said("ann"), said("cat", FALSE), said("dan")]
    found = vouch_of("kernel-x", "script", claims, policy(2, rule), names, ("team",))
    assert found is not None
    assert (found.signers, found.need) == (("dan",), 1)


@pytest.mark.parametrize(
    ("patterns", "builders", "name", "builder", "fits"),
    [
        (("kernel-*",), (), "kernel-a", "script", True),
        (("kernel-*",), (), "a-kernel-a", "script", False),
        (("*-x-*",), (), "a-x-b", "script", True),
        (("image:*",), (), "ds41f", "image", True),
        (("image:*",), (), "ds41f", "script", False),
        (("drv:ds41f",), (), "ds41f", "script", True),
        (("drv:ds41f",), (), "ds41f", "image", False),
        (("a.c",), (), "abc", "script", False),
        ((), ("kernel",), "any", "kernel", True),
        ((), ("kernel",), "any", "script", False),
        (("a*",), ("kernel",), "b", "kernel", False),
        (("a*",), ("kernel",), "a", "script", False),
    ],
)
def test_a_rule_fits_names_and_kinds(
    patterns: tuple[str, ...], builders: tuple[str, ...], name: str, builder: str, fits: bool
) -> None:
    rule = OutputRule(derivations=patterns, builders=builders, keys=("ann",), threshold=1)
    assert rule.fits(name, builder) is fits


def test_claims_that_differ_are_found_whoever_makes_them() -> None:
    other = Said(resolved=sha256(b"other"), key=KEYS["ann"].id, cache="team", outputs=TRUE)
    groups = contradictions([said("ann"), other, said("cat", FALSE)])
    assert [[one.key for one in group] for group in groups] == [[KEYS["ann"].id, KEYS["cat"].id]]
