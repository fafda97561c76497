# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import sha256
from derive.net.failures import Refused
from derive.oci.answers import error_words, received, smallest_chunk, stated_digest, stated_size, upload_url
from derive.oci.urls import finish_url, referrers_tag, referrers_url, uploads_url

ONE = sha256(b"one")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0-0", 0),
        ("0-99", 100),
        ("bytes=0-9", 10),
        (" 0-1 ", 2),
        ("", None),
        ("5-9", None),
        ("0-x", None),
        ("0-٣", None),
    ],
)
def test_a_range_says_how_many_bytes_have_come(text: str, size: int | None) -> None:
    assert received({"range": text}) == size


@pytest.mark.parametrize(
    ("asked", "location", "url"),
    [
        ("https://r.test/v2/x/blobs/uploads/", "/v2/x/blobs/uploads/1?a=b", "https://r.test/v2/x/blobs/uploads/1?a=b"),
        ("https://r.test/v2/x/blobs/uploads/", "https://s.test/1", "https://s.test/1"),
        ("http://r.test/v2/x/blobs/uploads/", "http://r.test/1", "http://r.test/1"),
        ("https://r.test/v2/x/blobs/uploads/", "http://r.test/1", None),
        ("https://r.test/v2/x/blobs/uploads/", "file:///etc/passwd", None),
        ("https://r.test/v2/x/blobs/uploads/", "", None),
    ],
)
def test_an_upload_goes_on_where_the_registry_says_but_never_from_tls_into_the_open(
    asked: str, location: str, url: str | None
) -> None:
    assert upload_url(asked, {"location": location}) == url


def test_what_a_registry_says_of_a_refusal_is_one_short_line() -> None:
    assert error_words(b'{"errors":[{"code":"DENIED","message":"no\\nroom"},{"code":"X"}]}') == "DENIED no?room, X"
    assert len(error_words(b'{"errors":[{"message":"' + b"x" * 9999 + b'"}]}')) == 200
    for odd in (b"", b"<html>", b"[]", b'{"errors":5}', b'{"errors":[5]}', b"[" * 100_000):
        assert error_words(odd) == ""


def test_headers_that_cannot_be_read_state_nothing() -> None:
    assert stated_digest({"docker-content-digest": str(ONE)}) == ONE
    assert stated_digest({"docker-content-digest": "sha512:abc"}) is None
    assert stated_digest({}) is None
    assert (stated_size({"content-length": "12"}), stated_size({"content-length": "-1"}), stated_size({})) == (
        12,
        None,
        None,
    )
    assert (smallest_chunk({"oci-chunk-min-length": "5242880"}), smallest_chunk({"oci-chunk-min-length": "x"})) == (
        5242880,
        0,
    )


def test_the_urls_of_a_push_are_those_of_the_specification() -> None:
    assert uploads_url("https://r.test/hub", "a/b") == "https://r.test/v2/hub/a/b/blobs/uploads/"
    mount = uploads_url("https://r.test", "a/b", mount=ONE, source="c/d")
    assert mount == f"https://r.test/v2/a/b/blobs/uploads/?mount=sha256%3A{ONE.hex}&from=c%2Fd"
    assert finish_url("https://r.test/u?_state=x%3D", ONE) == f"https://r.test/u?_state=x%3D&digest=sha256%3A{ONE.hex}"
    assert finish_url("https://r.test/u", ONE) == f"https://r.test/u?digest=sha256%3A{ONE.hex}"
    assert referrers_url("https://r.test", "a/b", ONE) == f"https://r.test/v2/a/b/referrers/{ONE}"
    assert referrers_tag(ONE) == f"sha256-{ONE.hex}"


def test_an_upload_that_goes_on_at_what_is_no_url_is_refused_with_what_the_registry_said() -> None:
    with pytest.raises(Refused) as caught:
        upload_url("https://r.test/v2/x/blobs/uploads/", {"location": "http://[bad"})
    assert caught.value.reason == "says that the upload goes on at what is no URL: http://[bad"
