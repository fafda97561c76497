# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from derive.canonical import encode, sha256
from derive.derivations.model import FlatOutput, TreeOutput
from derive.errors import Corrupt
from derive.trust.dsse import sign
from derive.trust.keys import SigningKey
from derive.trust.statement import PAYLOAD_TYPE, Claim, Statement, Subject, read_statement

KEY = SigningKey(bytes(32))
FIRST = Claim(resolved=sha256(b"1"), builder="script/1", outputs={"out": TreeOutput(sha256(b"tree"))})
SECOND = Claim(
    resolved=sha256(b"2"),
    builder="image/1",
    outputs={"out": FlatOutput(sha256(b"manifest")), "config": FlatOutput(sha256(b"config"))},
)
SUBJECT = Subject(name="manifest.json", digest=sha256(b"file"))


def statement() -> Statement:
    return Statement.of([SUBJECT], [FIRST, SECOND])


def test_a_statement_reads_back_from_its_envelope() -> None:
    found, envelope = read_statement(statement().signed([KEY]).encoded())
    assert found == statement()
    assert envelope.is_signed_by(KEY.public)


def test_it_has_the_shape_of_an_in_toto_statement() -> None:
    document = json.loads(statement().encoded())
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    assert document["subject"] == [{"name": "manifest.json", "digest": {"sha256": sha256(b"file").hex}}]
    assert document["predicateType"] == "urn:derive:realisations:1"
    assert document["predicate"]["derive"] == "realisations/1"


def test_the_order_in_which_things_come_decides_no_byte() -> None:
    turned = Statement.of([SUBJECT], [SECOND, FIRST])
    assert turned.encoded() == statement().encoded()


def test_one_resolved_derivation_is_spoken_of_once() -> None:
    other = Claim(resolved=FIRST.resolved, builder="script/1", outputs={"out": TreeOutput(sha256(b"other"))})
    with pytest.raises(ValueError, match="two claims"):
        Statement.of([SUBJECT], [FIRST, other])
    with pytest.raises(ValueError, match="two subjects"):
        Statement.of([SUBJECT, Subject(name="manifest.json", digest=sha256(b""))], [])


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(statement().encoded())
    change(document)
    return sign(PAYLOAD_TYPE, encode(document), [KEY]).encoded()


def realisation(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["predicate"]["realisations"][0]
    return found


@pytest.mark.parametrize(
    "data",
    [
        changed(lambda d: d.pop("subject")),
        changed(lambda d: d.update(more=1)),
        changed(lambda d: d.update(_type="other")),
        changed(lambda d: d.update(predicateType="other")),
        changed(lambda d: d["predicate"].update(derive="realisations/2")),
        changed(lambda d: d.update(predicate=[])),
        changed(lambda d: d.update(subject="text")),
        changed(lambda d: d["subject"].append(d["subject"][0])),
        changed(lambda d: d["subject"][0]["digest"].update(sha512="x")),
        changed(lambda d: d["predicate"]["realisations"].reverse()),
        changed(lambda d: d["predicate"]["realisations"].append(realisation(d))),
        changed(lambda d: realisation(d).update(more=1)),
        changed(lambda d: realisation(d).update(builder=1)),
        changed(lambda d: realisation(d).update(resolved="x")),
        changed(lambda d: realisation(d).update(outputs=[])),
        changed(lambda d: realisation(d)["outputs"].update(out="sha256:x")),
        changed(lambda d: realisation(d)["outputs"].update(out=None)),
        changed(lambda d: realisation(d)["outputs"].update({"\x1b[31m": str(TreeOutput(sha256(b"")))})),
        changed(lambda d: realisation(d).update(builder="a\nb/1")),
        sign(PAYLOAD_TYPE, b"[]", [KEY]).encoded(),
        sign(PAYLOAD_TYPE, statement().encoded() + b" ", [KEY]).encoded(),
    ],
)
def test_what_is_no_statement_is_refused_whoever_signed_it(data: bytes) -> None:
    with pytest.raises(Corrupt, match="statement"):
        read_statement(data)
