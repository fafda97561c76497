# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from derive.attest.compare import differences
from derive.attest.facts import ImageFacts
from derive.attest.judge import Verdict, verdict
from derive.attest.provenance import predicate, provenance
from derive.attest.sbom import bill, sbom_statement
from derive.attest.statement import PROVENANCE_TYPE, SBOM_TYPE, read_said, statement
from derive.canonical import Digest, Json, sha256
from derive.errors import Corrupt
from derive.trust.dsse import Envelope, sign
from derive.trust.keys import SigningKey
from derive.trust.policy import Policy
from derive.trust.statement import PAYLOAD_TYPE
from support.attested import facts, tiny

BUILD, SECOND, STRANGER = (SigningKey(bytes([number]) * 32) for number in (1, 2, 3))
POLICY = Policy(keys={"build": BUILD.public, "second": SECOND.public}, threshold=1)
BOTH = Policy(keys=POLICY.keys, threshold=2)


@pytest.fixture(scope="module")
def known() -> ImageFacts:
    return facts(tiny())


@pytest.fixture(scope="module")
def expected(known: ImageFacts) -> Mapping[str, Mapping[str, Json]]:
    return {PROVENANCE_TYPE: predicate(known), SBOM_TYPE: bill(known)}


def signed(payload: bytes, *keys: SigningKey) -> Envelope:
    return sign(PAYLOAD_TYPE, payload, keys)


def judged(
    known: ImageFacts,
    expected: Mapping[str, Mapping[str, Json]],
    *envelopes: Envelope,
    policy: Policy = POLICY,
    revoked: frozenset[Digest] = frozenset(),
) -> Verdict:
    found = {sha256(str(number).encode()): one for number, one in enumerate(envelopes)}
    return verdict(known.image, found, policy, revoked, expected)


def altered(known: ImageFacts, change: Callable[[Any], None]) -> bytes:
    said = json.loads(provenance(known))["predicate"]
    change(said)
    return statement(known.name, known.image, PROVENANCE_TYPE, said)


def test_both_signed_by_a_trusted_key_and_right_is_enough(
    known: ImageFacts, expected: Mapping[str, Mapping[str, Json]]
) -> None:
    found = judged(known, expected, signed(provenance(known), BUILD), signed(sbom_statement(known), SECOND))
    assert found.findings == ()
    assert {(one.kind, one.judgement.trusted, one.holds) for one in found.attestations} == {
        ("provenance", ("build",), True),
        ("sbom", ("second",), True),
    }


def test_what_is_absent_is_said_of_each(known: ImageFacts, expected: Mapping[str, Mapping[str, Json]]) -> None:
    assert judged(known, expected).findings == ("provenance: there is none", "sbom: there is none")


@pytest.mark.parametrize(
    ("keys", "revoked", "says"),
    [
        ((), frozenset(), "nobody signed"),
        ((STRANGER,), frozenset(), f"{STRANGER.public.id.short} signed, which the project does not trust"),
        ((BUILD,), frozenset({BUILD.public.id}), "build signed, which is revoked"),
    ],
)
def test_what_no_trusted_key_signed_does_not_count(
    known: ImageFacts,
    expected: Mapping[str, Mapping[str, Json]],
    keys: tuple[SigningKey, ...],
    revoked: frozenset[Digest],
    says: str,
) -> None:
    bills = signed(sbom_statement(known), SECOND)
    found = judged(known, expected, signed(provenance(known), *keys), bills, revoked=revoked)
    assert found.findings == (f"provenance: 1 trusted key must sign: {says}",)


def test_two_who_sign_the_same_apart_are_taken_together(
    known: ImageFacts, expected: Mapping[str, Mapping[str, Json]]
) -> None:
    each = [signed(data, key) for data in (provenance(known), sbom_statement(known)) for key in (BUILD, SECOND)]
    found = judged(known, expected, *each, policy=BOTH)
    assert found.findings == ()
    assert [len(one.manifests) for one in found.attestations] == [2, 2]
    assert judged(known, expected, *each[:2], policy=BOTH).findings == ("sbom: there is none",)


def test_one_key_twice_is_one_key(known: ImageFacts, expected: Mapping[str, Mapping[str, Json]]) -> None:
    each = [signed(data, BUILD) for data in (provenance(known), sbom_statement(known))]
    found = judged(known, expected, *each, *each, policy=BOTH)
    assert len(found.findings) == 2


def test_a_trusted_word_about_another_image_is_a_finding(
    known: ImageFacts, expected: Mapping[str, Mapping[str, Json]]
) -> None:
    other = statement("tiny", sha256(b"other"), PROVENANCE_TYPE, predicate(known))
    found = judged(known, expected, signed(other, BUILD), signed(sbom_statement(known), BUILD))
    assert found.findings == (f"provenance {sha256(b'0').short}: it is about {sha256(b'other')}",)


def test_what_a_stranger_says_wrongly_is_no_finding(
    known: ImageFacts, expected: Mapping[str, Mapping[str, Json]]
) -> None:
    lie = signed(altered(known, lambda said: said["runDetails"]["byproducts"].clear()), STRANGER)
    found = judged(known, expected, signed(provenance(known), BUILD), signed(sbom_statement(known), BUILD), lie)
    assert found.findings == ()
    assert [one.holds for one in found.attestations].count(False) == 1


def _other_output(said: Any) -> None:
    (step,) = (one for one in said["runDetails"]["byproducts"] if one["name"] == "tiny (linux/arm64)")
    step["annotations"]["outputs"]["out"] = f"flat:{sha256(b'lie')}"


def _other_artifact(said: Any) -> None:
    said["buildDefinition"]["resolvedDependencies"][0]["digest"]["sha256"] = sha256(b"lie").hex


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_other_output, "step tiny (linux/arm64)"),
        (_other_artifact, "artifact"),
        (lambda said: said["runDetails"]["byproducts"].pop(), "not named"),
        (lambda said: said["buildDefinition"].update(buildType="urn:other"), "build type: expected"),
        (lambda said: said["buildDefinition"]["externalParameters"].update(platform="any"), "platform: expected"),
        (lambda said: said.pop("runDetails"), "not of the form"),
        (lambda said: said["buildDefinition"].update(resolvedDependencies="all"), "not of the form"),
    ],
)
def test_a_trusted_word_that_is_wrong_is_a_finding(
    known: ImageFacts, expected: Mapping[str, Mapping[str, Json]], change: Callable[[Any], None], says: str
) -> None:
    lie = signed(altered(known, change), BUILD)
    found = judged(known, expected, lie, signed(sbom_statement(known), BUILD))
    assert found.findings
    assert all(says in text or "artifact" in text for text in found.findings)
    assert not any(one.holds for one in found.attestations if one.kind == "provenance")


def test_engines_and_digests_of_content_may_differ(
    known: ImageFacts, expected: Mapping[str, Mapping[str, Json]]
) -> None:
    def elsewhere(said: Any) -> None:
        said["runDetails"]["builder"]["id"] = "urn:derive:engine:other"
        said["buildDefinition"]["externalParameters"].pop("content")

    found = judged(known, expected, signed(altered(known, elsewhere), BUILD), signed(sbom_statement(known), BUILD))
    assert found.findings == ()


def test_without_knowledge_of_the_closure_nothing_is_compared(known: ImageFacts) -> None:
    lie = signed(altered(known, _other_output), BUILD)
    assert judged(known, {}, lie, signed(sbom_statement(known), BUILD)).findings == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda made: made["components"].pop(), "not named"),
        (lambda made: made["components"][0]["hashes"][0].update(content="0" * 64), "component"),
        (lambda made: made["components"].append({"bom-ref": "more"}), "component more: named, and no part of it"),
        (lambda made: made["dependencies"][0].update(dependsOn=["x"]), "dependencies of"),
        (lambda made: made["metadata"]["component"].update(version="x"), "image: expected"),
    ],
)
def test_a_bill_that_differs_says_where(known: ImageFacts, change: Callable[[Any], object], says: str) -> None:
    lie = copy.deepcopy(json.loads(json.dumps(bill(known))))
    change(lie)
    found = differences(SBOM_TYPE, bill(known), lie)
    assert found
    assert any(says in text for text in found)


def test_a_bill_with_other_licences_or_tools_does_not_differ(known: ImageFacts) -> None:
    other = json.loads(json.dumps(bill(known)))
    other["metadata"]["tools"]["components"][0]["version"] = "9"
    for one in other["components"]:
        one.pop("licenses", None)
    assert differences(SBOM_TYPE, bill(known), other) == ()


@pytest.mark.parametrize("payload", [b"", b"{}", b"[]", b'{"_type":"other"}', b'{"_type":1,"subject":2}'])
def test_what_is_no_statement_is_refused_and_breaks_nothing(known: ImageFacts, payload: bytes) -> None:
    with pytest.raises(Corrupt):
        read_said(payload)
    found = judged(known, {}, signed(payload, STRANGER))
    assert found.findings == ("provenance: there is none", "sbom: there is none")


def test_a_type_that_a_stranger_wrote_is_shown_without_commands_for_a_terminal(known: ImageFacts) -> None:
    odd = statement("tiny", known.image, "\x1b[2J\x9b31m", {})
    (found,) = judged(known, {}, signed(odd, STRANGER)).attestations
    assert found.kind.isascii()
    assert found.kind.isprintable()
