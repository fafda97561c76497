# SPDX-License-Identifier: Apache-2.0
"""Challenges of registries, and Docker's own settings."""

from __future__ import annotations

import base64
import json
from urllib.parse import parse_qs, urlsplit

import pytest

from derive.errors import InputErrors
from derive.net.failures import Refused
from derive.oci.credentials import (
    Basic,
    Bearer,
    Login,
    parse_challenge,
    parse_docker_config,
    parse_helper,
    parse_token,
    split_login,
    token_url,
)
from support.archives import said


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ('Bearer realm="https://a.test/t",service="s",scope="repository:x:pull"',
         Bearer(realm="https://a.test/t", service="s", scope="repository:x:pull")),
        ('bearer  REALM = "https://a.test/t" , service=s', Bearer(realm="https://a.test/t", service="s", scope="")),
        (r'Bearer realm="a\"b",scope="a b,c"', Bearer(realm='a"b', service="", scope="a b,c")),
        ('Basic realm="x", Bearer realm="https://a.test/t"', Bearer(realm="https://a.test/t", service="", scope="")),
        ('Basic realm="x"', Basic()),
        ("Basic", Basic()),
        ('Negotiate, Basic realm="x"', Basic()),
        ("Bearer", None),
        ('Digest realm="x"', None),
        ("", None),
        ('="x"', None),
    ],
)  # fmt: skip
def test_a_challenge_is_read_as_it_may_be_written(header: str, found: Bearer | Basic | None) -> None:
    assert parse_challenge(header) == found


def test_a_token_is_asked_for_what_is_to_be_read() -> None:
    asked = Bearer(realm="/token?a=b%26c", service="the one", scope="")
    assert (
        token_url(asked, registry="https://r.test/prefix", repository="x/y")
        == "https://r.test/token?a=b%26c&service=the+one&scope=repository%3Ax%2Fy%3Apull"
    )


@pytest.mark.parametrize(
    ("scope", "asked"),
    [
        ("", "repository:x/y:pull,push"),
        ("repository:x/y:pull", "repository:x/y:pull,push"),
        ("repository:hub/x/y:pull repository:z:pull", "repository:hub/x/y:pull,push repository:z:pull"),
        ("registry:catalog:*", "registry:catalog:*"),
    ],
)
def test_a_token_to_push_allows_more_than_the_first_request_needed(scope: str, asked: str) -> None:
    challenge = Bearer(realm="/token", service="", scope=scope)
    url = token_url(challenge, registry="https://r.test", repository="x/y", actions="pull,push")
    assert url is not None
    assert parse_qs(urlsplit(url).query) == {"scope": [asked]}


@pytest.mark.parametrize("realm", ["http://a.test/t", "file:///etc/passwd", "data:x"])
def test_no_login_goes_from_a_registry_with_tls_into_the_open(realm: str) -> None:
    assert token_url(Bearer(realm=realm, service="", scope=""), registry="https://r.test", repository="x") is None


def test_a_realm_that_is_no_url_is_refused_with_what_the_registry_said() -> None:
    challenge = Bearer(realm="http://[bad/token", service="", scope="")
    with pytest.raises(Refused) as caught:
        token_url(challenge, registry="https://r.test", repository="x")
    assert caught.value.reason == "wants a token from what is no URL: realm http://[bad/token"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"token": ""}', b'{"token": "a\\nb"}', b'{"token": 5}', b"\xff"])
def test_no_token_is_none(data: bytes) -> None:
    assert parse_token(data) is None


def test_logins_are_found_by_host_however_the_key_is_written() -> None:
    document = {
        "auths": {
            "https://index.test/v1/": {"auth": packed("a:b:c")},
            "plain.test:5000": {"username": "u", "password": "p"},
            "https://plain.test:5000/v2/": {"auth": packed("second:one")},
            "part.test/team": {"auth": packed("x:y")},
            "helper.test": {},
            "bad.test": {"auth": "%%%"},
            "token.test": {"identitytoken": "t"},
            "odd.test": 5,
        },
        "credHelpers": {"aws.test": "ecr-login", "evil.test": "../../bin/sh"},
        "credsStore": "secretservice",
    }
    found = parse_docker_config(json.dumps(document).encode(), "config.json")
    assert found.logins == {
        "index.test": Login(username="a", password="b:c"),
        "plain.test:5000": Login(username="u", password="p"),
    }
    assert (found.helper("aws.test"), found.helper("evil.test")) == ("ecr-login", "secretservice")


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"auths": {"x": {"auth": "c2VjcmV0OnNlY3JldA=="}}'])
def test_settings_that_cannot_be_read_are_told_without_what_is_in_them(data: bytes) -> None:
    with pytest.raises(InputErrors) as caught:
        parse_docker_config(data, "config.json")
    assert said(caught.value).startswith("config.json: Docker's settings are")
    assert "c2Vj" not in said(caught.value)


def test_settings_of_odd_shapes_hold_no_logins() -> None:
    found = parse_docker_config(b'{"auths": [], "credHelpers": "x", "credsStore": {}}', "config.json")
    assert (found.logins, found.helpers, found.store) == ({}, {}, None)


def test_a_helper_gives_a_name_and_a_password_and_nothing_else_counts() -> None:
    assert parse_helper(b'{"ServerURL": "x", "Username": "u", "Secret": "s"}') == Login(username="u", password="s")
    for data in (b'{"Username": "<token>", "Secret": "s"}', b"{}", b"x", b'{"Username": "u"}', b"[]"):
        assert parse_helper(data) is None


def test_a_login_in_a_url_is_taken_out_and_never_shown() -> None:
    url, login = split_login("https://us%40er:p%3Aw@r.test:5000/x")
    assert url == "https://r.test:5000/x"
    assert login == Login(username="us@er", password="p:w")
    assert "p:w" not in repr(login)
    assert split_login("https://r.test") == ("https://r.test", None)
