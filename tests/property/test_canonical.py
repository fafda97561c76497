# SPDX-License-Identifier: Apache-2.0
"""The canonical encoder against an independent one, and the laws that identities rest on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from derive.canonical import CanonicalError, Json, decode, encode, escape, unescape

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
UNTIMED = settings(deadline=None)
KEYS = st.one_of(TEXT, st.text(st.sampled_from("aé\ue000\uffff\U00010000\U0001f600\ufb33"), max_size=3))
SAFE = st.integers(-(2**53) + 1, 2**53 - 1)
SCALARS = st.one_of(st.none(), st.booleans(), SAFE, TEXT)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=20,
)
# A value that our subset refuses, somewhere inside a document that is otherwise good.
REFUSED = st.one_of(
    st.floats(),
    st.integers(min_value=2**53),
    st.integers(max_value=-(2**53)),
    st.text(st.characters(categories=["Cs"]), min_size=1, max_size=2),
    st.binary(max_size=3),
)


def exactly(value: Json) -> object:
    """Return a form that Python compares as JSON means it: true is not 1, and keys have no order."""
    if isinstance(value, Mapping):
        return ("object", tuple(sorted((key, exactly(item)) for key, item in value.items())))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ("array", tuple(exactly(item) for item in value))
    return (type(value).__name__, repr(value))


@UNTIMED
@given(DOCUMENTS)
def test_the_bytes_are_those_of_the_rfc8785_package(document: Json) -> None:
    assert encode(document) == rfc8785.dumps(document)


@UNTIMED
@given(DOCUMENTS)
def test_decoding_gives_the_document_back_and_encoding_is_then_stable(document: Json) -> None:
    data = encode(document)
    assert exactly(decode(data)) == exactly(document)
    assert encode(decode(data)) == data


@UNTIMED
@given(DOCUMENTS)
def test_the_layout_of_the_source_text_does_not_count(document: Json) -> None:
    pretty = json.dumps(document, indent=3, ensure_ascii=True)
    assert encode(decode(pretty.encode())) == encode(document)


@UNTIMED
@given(DOCUMENTS, DOCUMENTS)
@example([True], [1])
@example(["1"], [1])
@example({"a": None}, {})
@example({"é": 1}, {"e\u0301": 1})
def test_different_documents_have_different_bytes(one: Json, other: Json) -> None:
    assert (encode(one) == encode(other)) == (exactly(one) == exactly(other))


@UNTIMED
@given(st.dictionaries(KEYS, SCALARS, min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_count(document: dict[str, Json], random: object) -> None:
    pairs = list(document.items())
    random.shuffle(pairs)  # type: ignore[attr-defined]
    assert encode(dict(pairs)) == encode(document)


@UNTIMED
@given(REFUSED, st.lists(SCALARS, max_size=2), KEYS)
def test_a_refused_value_is_refused_wherever_it_stands(value: object, beside: list[Json], key: str) -> None:
    for document in (value, [*beside, value], {key: value}, {"a": {key: [value]}}):
        with pytest.raises(CanonicalError):
            encode(document)  # type: ignore[arg-type]


@UNTIMED
@given(st.text(st.characters(categories=["Cs"]), min_size=1), TEXT)
def test_a_key_with_a_lone_surrogate_is_refused(bad: str, good: str) -> None:
    with pytest.raises(CanonicalError):
        encode({good + bad: 1})


@UNTIMED
@given(st.binary(max_size=40))
def test_escaped_bytes_come_back_and_are_printable_ascii(raw: bytes) -> None:
    text = escape(raw)
    assert unescape(text) == raw
    assert text.isascii()
    assert text.isprintable()


@UNTIMED
@given(st.binary(max_size=6), st.binary(max_size=6))
def test_different_bytes_escape_to_different_text(one: bytes, other: bytes) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@UNTIMED
@given(st.text(st.sampled_from("a%4C1c2e9\n\x7fé ~"), max_size=8))
@example("%4")
@example("%25%")
def test_text_is_unescaped_only_when_escape_would_write_it(text: str) -> None:
    try:
        raw = unescape(text)
    except CanonicalError:
        return
    assert escape(raw) == text


@UNTIMED
@given(st.binary(max_size=30))
def test_decoding_any_bytes_gives_a_document_or_a_canonical_error(data: bytes) -> None:
    try:
        document = decode(data)
    except CanonicalError:
        return
    encode(document)
