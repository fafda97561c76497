# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Mapping
from enum import IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType

import pytest

from derive.canonical import (
    EPOCH,
    CanonicalError,
    Digest,
    Json,
    decode,
    digest_document,
    encode,
    escape,
    sha256,
    unescape,
)

ROOT = Path(__file__).parents[2]
HEX = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
FACE = "\U0001f600"  # UTF-16: D83D DE00, so before U+FB33 there, and after it by code point
DALET = "\ufb33"


class Colour(StrEnum):
    RED = "red"


class Number(IntEnum):
    TWO = 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, b"null"),
        (True, b"true"),
        (False, b"false"),
        (0, b"0"),
        (-1, b"-1"),
        (2**53 - 1, b"9007199254740991"),
        (-(2**53) + 1, b"-9007199254740991"),
        ("", b'""'),
        ('a"b\\c/d', rb'"a\"b\\c/d"'),
        ("\b\t\n\f\r", rb'"\b\t\n\f\r"'),
        ("\x00\x0b\x1f\x7f", b'"\\u0000\\u000b\\u001f\x7f"'),
        ("é\u2028\u2029", '"é\u2028\u2029"'.encode()),
        (FACE, f'"{FACE}"'.encode()),
        ([], b"[]"),
        ((), b"[]"),
        ({}, b"{}"),
        ([1, [2, ()], {"b": [], "a": None}], b'[1,[2,[]],{"a":null,"b":[]}]'),
    ],
)
def test_a_value_is_written_as_rfc_8785_lays_it_out(value: Json, expected: bytes) -> None:
    assert encode(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        0.0,
        1e-7,
        1e20,
        float("nan"),
        float("inf"),
        2**53,
        2**53 + 1,
        -(2**53),
        10**400,
        "\ud800",
        "a\udfffb",
        {"\ud800": 1},
        {1: "a"},
        {None: "a"},
        {True: "a"},
        b"bytes",
        bytearray(b"bytes"),
        {"a"},
        pytest.param(object(), id="object"),
    ],
    ids=repr,
)
def test_what_no_document_can_hold_is_refused(value: object) -> None:
    with pytest.raises(CanonicalError):
        encode(value)  # type: ignore[arg-type]


def test_a_view_of_bytes_is_no_list_of_integers() -> None:
    with pytest.raises(CanonicalError):
        encode(memoryview(b"bytes"))


def test_a_refusal_names_the_path_of_the_value() -> None:
    with pytest.raises(CanonicalError, match=r"^arguments\.steps\[1\]\.ratio: float .*0\.5"):
        encode({"arguments": {"steps": [{}, {"ratio": 0.5}]}})  # type: ignore[dict-item]


def test_keys_are_sorted_by_utf16_code_units_at_every_depth() -> None:
    inner = {DALET: 1, FACE: 2, "z": 3}
    expected = '{"z":3,"😀":2,"\ufb33":1}'.encode()
    assert encode(inner) == expected
    assert encode({"a": [inner]}) == b'{"a":[' + expected + b"]}"


def test_a_key_sorts_before_the_keys_that_it_begins() -> None:
    assert encode({"ab": 1, "a": 2, "": 3, "a\0": 4}) == b'{"":3,"a":2,"a\\u0000":4,"ab":1}'


def test_composed_and_decomposed_accents_stay_two_keys() -> None:
    composed, decomposed = "\u00e9", "e\u0301"
    assert encode({composed: 1, decomposed: 2}) == f'{{"{decomposed}":2,"{composed}":1}}'.encode()
    assert encode(composed) != encode(decomposed)


def test_mappings_and_sequences_of_any_kind_are_one_document() -> None:
    plain: Json = {"a": [1, 2], "b": {"c": "d"}}
    other: Json = MappingProxyType({"b": OrderedDict(c="d"), "a": (1, 2)})
    assert encode(other) == encode(plain)


def test_an_enumeration_is_written_as_its_value() -> None:
    assert encode([Colour.RED, Number.TWO]) == b'["red",2]'


def test_true_and_one_are_not_the_same_document() -> None:
    assert encode([True, 1, "1"]) == b'[true,1,"1"]'


def test_encoding_does_not_depend_on_the_hash_seed() -> None:
    script = (
        "from derive.canonical import digest_document;"
        r"print(digest_document({'derive': 't/1', 's': dict.fromkeys({'a', 'b', '\xe9', '\U0001f600'})}))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src"), "LC_ALL": locale},
            capture_output=True,
            check=True,
        ).stdout
        for seed, locale in (("1", "C"), ("2", "C.UTF-8"))
    }
    assert len(seen) == 1


@pytest.mark.parametrize(
    "text",
    [
        "1.0",
        "1e-7",
        "1e20",
        "1E2",
        "-0.0",
        "NaN",
        "Infinity",
        "-Infinity",
        "9007199254740992",
        "-9007199254740992",
        "1" * 5000,
        '"\\ud800"',
        '{"\\udfff": 1}',
        '{"a": 1, "a": 1}',
        '{"x": [{"a": 1, "b": 2, "a": 3}]}',
        "",
        "[1,]",
        "01",
        "'a'",
        '"a\nb"',
        "[] []",
        "\ufeff[]",
        "[" * 100_000,
    ],
    ids=lambda text: repr(text[:20]),
)
def test_text_that_is_no_strict_json_is_refused(text: str) -> None:
    with pytest.raises(CanonicalError):
        decode(text.encode())


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(CanonicalError):
        decode(b'"\xff"')
    with pytest.raises(CanonicalError):
        decode('"a"'.encode("utf-16"))


def test_a_duplicate_key_is_named() -> None:
    with pytest.raises(CanonicalError, match="duplicate key: 'b'"):
        decode(b'{"a": 1, "b": 2, "b": 2, "a": 3}')


def test_a_pretty_printed_document_decodes_to_the_same_value() -> None:
    assert decode(b'{ "b" : [ 1, true, null ],\n "a" : "\\u00e9\\ud83d\\ude00" }\n') == {
        "a": f"é{FACE}",
        "b": [1, True, None],
    }


def test_a_digest_has_one_text_form() -> None:
    digest = Digest.parse(f"sha256:{HEX}")
    assert digest == Digest(HEX) == sha256(b"")
    assert str(digest) == f"sha256:{HEX}"
    assert digest.short == "e3b0c44298fc"


@pytest.mark.parametrize("text", ["", HEX[:-1], HEX + "0", HEX.upper(), HEX + "\n", " " + HEX[1:], "g" + HEX[1:]])
def test_a_digest_refuses_all_but_64_lower_case_hex_digits(text: str) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        Digest(text)
    with pytest.raises(ValueError, match="SHA-256"):
        Digest.parse(f"sha256:{text}")


@pytest.mark.parametrize("text", [HEX, f"sha512:{HEX}", f"SHA256:{HEX}", f"nar:sha256:{HEX}", ""])
def test_a_digest_is_parsed_only_with_its_algorithm(text: str) -> None:
    with pytest.raises(ValueError, match="not a sha256 digest"):
        Digest.parse(text)


def test_digests_sort_by_their_hex() -> None:
    assert sorted([sha256(b"b"), sha256(b"a")]) == sorted([sha256(b"a"), sha256(b"b")], key=lambda d: d.hex)


def test_a_document_digest_is_the_sha256_of_the_canonical_bytes() -> None:
    document: dict[str, Json] = {"z": 1, "derive": "example/1"}
    assert digest_document(document).hex == hashlib.sha256(b'{"derive":"example/1","z":1}').hexdigest()


@pytest.mark.parametrize(
    "tag",
    [None, 1, "", "example", "example/", "example/0", "example/01", "Example/1", "/1", "ex ample/1", "example/1\n"],
)
def test_a_hashed_document_needs_a_kind_and_a_version(tag: Json) -> None:
    with pytest.raises(CanonicalError, match="derive"):
        digest_document({"derive": tag})
    with pytest.raises(CanonicalError, match="derive"):
        digest_document({})


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"usr/bin/a b~", "usr/bin/a b~"),
        (b"100%", "100%25"),
        (b"%41", "%2541"),
        (b"caf\xe9", "caf%E9"),
        ("café".encode(), "caf%C3%A9"),
        (b"\x00\n\x1f\x7f\xff", "%00%0A%1F%7F%FF"),
    ],
)
def test_a_path_is_escaped_in_one_way(raw: bytes, text: str) -> None:
    assert escape(raw) == text
    assert unescape(text) == raw


@pytest.mark.parametrize("text", ["%41", "%e9", "%C3%a9", "%", "%2", "a%", "%GG", "%%25", "é", "a\nb", "\x7f", "%20"])
def test_what_escape_would_not_write_is_refused(text: str) -> None:
    with pytest.raises(CanonicalError, match="not an escaped path"):
        unescape(text)


def test_the_page_of_the_format_gives_this_example() -> None:
    page = (ROOT / "docs" / "formats" / "canonical.md").read_text()
    examples = re.findall(r"```json\n(.*?)```.*?```text\n(.*?)\n```", page, re.DOTALL)
    assert len(examples) == 1
    document = decode(examples[0][0].encode())
    assert isinstance(document, Mapping)
    assert str(digest_document(document)) == examples[0][1]


def test_the_constant_time_is_the_first_day_of_1980() -> None:
    assert EPOCH == 315532800
