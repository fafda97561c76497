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
from derive.canonical import Digest, Json, encode, sha256
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


def test_a_statement_is_named_by_the_manifests_in_which_the_signatures_that_count_stand(
    known: ImageFacts, expected: Mapping[str, Mapping[str, Json]]
) -> None:
    first, right, other = sorted(sha256(text) for text in (b"1", b"2", b"3"))
    data = provenance(known)
    envelopes = {first: signed(data, STRANGER), right: signed(data, BUILD), other: signed(data, SECOND)}
    (found,) = verdict(known.image, envelopes, POLICY, frozenset({SECOND.public.id}), expected).attestations
    assert (found.manifests, found.signed_in) == ((first, right, other), (right,))
    assert found.title == f"provenance {right.short}"
    (found,) = verdict(known.image, envelopes, POLICY, frozenset(), expected).attestations
    assert found.place == f"{right.short}, {other.short}"
    (found,) = verdict(known.image, {first: envelopes[first]}, POLICY, frozenset(), expected).attestations
    assert (found.signed_in, found.place) == ((), first.short)


def test_one_key_twice_is_one_key(known: ImageFacts, expected: Mapping[str, Mapping[str, Json]]) -> None:
    each = [signed(data, BUILD) for data in (provenance(known), sbom_statement(known))]
    found = judged(known, expected, *each, *each, policy=BOTH)
    assert len(found.findings) == 2


def test_a_trusted_word_about_another_image_is_passed_over_and_proves_nothing(
    known: ImageFacts, expected: Mapping[str, Mapping[str, Json]]
) -> None:
    other = signed(statement("tiny", sha256(b"other"), PROVENANCE_TYPE, predicate(known)), BUILD)
    bills = signed(sbom_statement(known), BUILD)
    found = judged(known, expected, other, bills)
    assert found.findings == (f"provenance: it is about {sha256(b'other')}",)
    found = judged(known, expected, other, bills, signed(provenance(known), BUILD))
    assert found.findings == ()
    assert [why for _, _, why in found.passed_over()] == [f"it is about {sha256(b'other')}"]


def test_a_trusted_word_about_more_than_this_image_is_a_finding(
    known: ImageFacts, expected: Mapping[str, Mapping[str, Json]]
) -> None:
    said = json.loads(provenance(known))
    said["subject"].append({"name": "x", "digest": {"sha256": "0" * 64}})
    said["note"] = said["subject"][0]["digest"]["sha512"] = "x"
    found = judged(known, expected, signed(encode(said), BUILD), signed(sbom_statement(known), BUILD))
    texts = [text.partition(": ")[2] for text in found.findings]
    assert texts == [
        f"it is about {known.image}, sha256:{'0' * 64}",
        "note: said, and nothing that is known here",
        "subject[0].digest.sha512: said, and nothing that is known here",
    ]


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


def _dependencies(said: Any) -> Any:
    return said["buildDefinition"]["resolvedDependencies"]


def _twice(items: Any) -> None:
    items.append(items[0])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_other_output, "runDetails.byproducts[tiny (linux/arm64) "),
        (_other_artifact, "named, and no part of it"),
        (lambda said: _dependencies(said)[0].update(uri="pkg:deb/debian/evil@1"), ".uri: expected "),
        (lambda said: _dependencies(said)[0]["annotations"].update(locator="evil"), ".annotations.locator: expected "),
        (lambda said: _dependencies(said)[0].pop("annotations"), ".annotations: not said"),
        (lambda said: _twice(_dependencies(said)), "resolvedDependencies: something is named twice"),
        (lambda said: _dependencies(said).reverse(), "resolvedDependencies: in another order"),
        (lambda said: said["runDetails"]["byproducts"].pop(), "not named"),
        (lambda said: said["runDetails"].update(metadata={}), "runDetails.metadata: said, and nothing that is known"),
        (lambda said: said["runDetails"]["builder"].update(id="urn:x"), "runDetails.builder.id: expected"),
        (lambda said: said.update(note="\x1b[31m"), "note: said, and nothing that is known here"),
        (lambda said: said["buildDefinition"].update(buildType="urn:other"), "buildDefinition.buildType: expected"),
        (lambda said: said["buildDefinition"]["internalParameters"].update(builders=[]), "builders[0]: not named"),
        (lambda said: said["buildDefinition"]["externalParameters"].update(platform="any"), ".platform: expected"),
        (lambda said: said["buildDefinition"]["externalParameters"].update(content=1), ".content: said"),
        (lambda said: said.pop("runDetails"), "runDetails: not said"),
        (lambda said: said["buildDefinition"].update(resolvedDependencies="all"), 'says "all"'),
    ],
)
def test_a_trusted_word_that_is_wrong_is_a_finding(
    known: ImageFacts, expected: Mapping[str, Mapping[str, Json]], change: Callable[[Any], None], says: str
) -> None:
    lie = signed(altered(known, change), BUILD)
    found = judged(known, expected, lie, signed(sbom_statement(known), BUILD))
    assert any(says in text for text in found.findings), found.findings
    assert all(text.isprintable() for text in found.findings)
    assert not any(one.holds for one in found.attestations if one.kind == "provenance")


def _elsewhere(said: Any) -> None:
    said["runDetails"]["builder"]["id"] = f"urn:derive:engine:{'0' * 64}"
    said["buildDefinition"]["externalParameters"].pop("content")
    said["buildDefinition"]["externalParameters"]["locks"] = {"lock/other.lock.json": f"sha256:{'1' * 64}"}


def _not_run(said: Any) -> None:
    step = said["runDetails"]["byproducts"][0]
    del step["annotations"]["outputs"]
    step["uri"] = f"urn:derive:derivation:{step['annotations']['derivation']}"


def _not_known(said: Any) -> None:
    for one in said["buildDefinition"]["resolvedDependencies"]:
        for key in ("name", "uri", "annotations"):
            del one[key]
    said["buildDefinition"]["internalParameters"]["builders"] = sorted(
        {one["annotations"]["builder"] for one in said["runDetails"]["byproducts"]}
    )


@pytest.mark.parametrize("change", [_elsewhere, _not_run, _not_known])
def test_what_may_differ_between_two_who_are_right_is_no_finding(
    known: ImageFacts, expected: Mapping[str, Mapping[str, Json]], change: Callable[[Any], None]
) -> None:
    other = altered(known, change)
    found = judged(known, expected, signed(other, BUILD), signed(sbom_statement(known), BUILD))
    assert found.findings == ()
    theirs = json.loads(other)["predicate"]
    assert differences(PROVENANCE_TYPE, theirs, expected[PROVENANCE_TYPE]) == (), "nor the other way round"


def test_without_knowledge_of_the_closure_nothing_is_compared(known: ImageFacts) -> None:
    lie = signed(altered(known, _other_output), BUILD)
    assert judged(known, {}, lie, signed(sbom_statement(known), BUILD)).findings == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda made: made["components"].pop(), "not named"),
        (lambda made: made["components"][0]["hashes"][0].update(content="0" * 64), ".hashes[0].content: expected"),
        (lambda made: made["components"].append({"bom-ref": "more"}), "components[more]: named, and no part of it"),
        (lambda made: _twice(made["components"]), "components: something is named twice"),
        (lambda made: made["components"][0].update(licenses=["x"]), ".licenses: "),
        (lambda made: made["components"][0].update(description="safe"), ".description: said, and nothing that"),
        (lambda made: made["dependencies"][0].update(dependsOn=["x"]), "].dependsOn"),
        (lambda made: made["metadata"]["component"].update(version="x"), "metadata.component.version: expected"),
        (lambda made: made.update(serialNumber="urn:uuid:0"), "serialNumber: expected"),
        (lambda made: made.update(vulnerabilities=[]), "vulnerabilities: said, and nothing that is known here"),
        (lambda made: made["metadata"]["tools"]["components"].append({"name": "x"}), "metadata.tools.components"),
    ],
)
def test_a_bill_that_differs_says_where(known: ImageFacts, change: Callable[[Any], object], says: str) -> None:
    lie = copy.deepcopy(json.loads(json.dumps(bill(known))))
    change(lie)
    found = differences(SBOM_TYPE, bill(known), lie)
    assert any(says in text for text in found), found


def test_a_bill_with_other_licences_or_tools_does_not_differ(known: ImageFacts) -> None:
    other = json.loads(json.dumps(bill(known)))
    other["metadata"]["tools"]["components"][0]["version"] = "9"
    for one in other["components"]:
        one.pop("licenses", None)
        for source in one.get("pedigree", {}).get("ancestors", []):
            source["licenses"] = [{"license": {"id": "MIT"}}]
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
