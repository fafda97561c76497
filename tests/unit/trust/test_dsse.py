# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from derive.canonical import encode
from derive.errors import Corrupt
from derive.trust.dsse import MAX_SIGNATURES, Envelope, pae, read_envelope, shown, sign
from derive.trust.keys import SigningKey

KIND = "application/example"
ONE, TWO = SigningKey(bytes(32)), SigningKey(bytes([1]) * 32)


def test_the_pre_authentication_encoding_is_that_of_the_specification() -> None:
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_no_two_pairs_of_type_and_payload_have_one_encoding() -> None:
    assert pae("a", b"1 b") != pae("a 1", b"b")
    assert pae("\u00e9", b"") == b"DSSEv1 2 \xc3\xa9 0 "


def test_an_envelope_reads_back() -> None:
    envelope = sign(KIND, b"payload", [ONE, TWO])
    assert read_envelope(envelope.encoded(), KIND) == envelope


def test_an_envelope_has_the_keys_of_the_specification() -> None:
    document = json.loads(sign(KIND, b"payload", [ONE]).encoded())
    assert document["payload"] == "cGF5bG9hZA=="
    assert document["payloadType"] == KIND
    assert [set(one) for one in document["signatures"]] == [{"keyid", "sig"}]


def test_the_order_of_keys_and_a_key_given_twice_decide_no_byte() -> None:
    assert sign(KIND, b"x", [ONE, TWO, ONE]).encoded() == sign(KIND, b"x", [TWO, ONE]).encoded()


def test_who_signed_is_found_by_the_signature_and_not_by_the_key_id_beside_it() -> None:
    honest = sign(KIND, b"payload", [ONE])
    (signature,) = honest.signatures
    lying = Envelope(
        payload_type=KIND,
        payload=b"payload",
        signatures=(type(signature)(key=TWO.public.id, value=signature.value),),
    )
    assert lying.is_signed_by(ONE.public)
    assert not lying.is_signed_by(TWO.public)


def test_a_signature_covers_payload_and_type() -> None:
    signed = sign(KIND, b"payload", [ONE])
    for kind, payload in ((KIND, b"payloaf"), ("application/other", b"payload")):
        other = Envelope(payload_type=kind, payload=payload, signatures=signed.signatures)
        assert not other.is_signed_by(ONE.public)


def test_an_envelope_that_nobody_signed_is_signed_by_nobody() -> None:
    envelope = read_envelope(sign(KIND, b"payload", []).encoded(), KIND)
    assert envelope.signatures == ()
    assert not envelope.is_signed_by(ONE.public)


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(sign(KIND, b"payload", [ONE]).encoded())
    change(document)
    return encode(document)


def test_what_a_stranger_wrote_commands_no_terminal() -> None:
    assert shown(ValueError("\x1b[2J\n\u202e")) == "\\x1b[2J\\n\\u202e"
    assert len(shown(ValueError("x" * 10_000))) < 1000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b"1",
        b"\xff",
        b"[" * 100_000,
        changed(lambda d: d.pop("payload")),
        changed(lambda d: d.update(more=1)),
        changed(lambda d: d.update(payloadType="application/other")),
        changed(lambda d: d.update(payload="***")),
        changed(lambda d: d.update(payload=1)),
        changed(lambda d: d.update(signatures="text")),
        changed(lambda d: d.update(signatures=None)),
        changed(lambda d: d.update(signatures=["text"])),
        changed(lambda d: d["signatures"][0].pop("sig")),
        changed(lambda d: d["signatures"][0].update(sig="AA==")),
        changed(lambda d: d["signatures"][0].update(keyid="text")),
        changed(lambda d: d.update(signatures=d["signatures"] * (MAX_SIGNATURES + 1))),
        sign(KIND, b"payload", [ONE]).encoded() + b"\n",
        b" " + sign(KIND, b"payload", [ONE]).encoded(),
    ],
)
def test_what_is_no_envelope_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt, match="envelope"):
        read_envelope(data, KIND)
