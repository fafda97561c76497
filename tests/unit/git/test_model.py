# SPDX-License-Identifier: Apache-2.0
"""Requests and pins hold only what git can be given, and say what is wrong otherwise."""

from __future__ import annotations

import pytest

from derive.canonical import Digest
from derive.git.model import GitPin, GitRequest, SubmodulePin, check_id, check_ref, check_url

URL = "https://example.org/x.git"


@pytest.mark.parametrize("name", ["main", "release/1.x", "v1.0-rc.1", "caf\u00e9", "a@b"])
def test_names_of_branches_and_tags_are_taken(name: str) -> None:
    assert check_ref(name, "branch") == name


@pytest.mark.parametrize(
    "name",
    ["", "-x", "a..b", "a b", "a~1", "a^", "a:b", "a*", "x.lock", "a//b", "/a", "a/", "refs/heads/a", "@", "a@{1}"],
)
def test_what_git_would_refuse_or_misread_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a branch or tag"):
        check_ref(name, "branch")


@pytest.mark.parametrize("text", ["A" * 40, "a" * 39, "main", ""])
def test_an_id_is_forty_hex_digits(text: str) -> None:
    with pytest.raises(ValueError, match="commit: not 40"):
        check_id(text, "commit")


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "http://h/x",
        "ssh://me@h:22/x",
        "git://h/x",
        "file:///x",
        "/srv/x",
        "me@h:x.git",
        "h:x",
        "[::1]:x",
        "ssh://[::1]:22/x",
        "https://me:w@h:8/x",
    ],
)
def test_urls_that_git_is_given(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "./x",
        "../x",
        "-x",
        "ext::x",
        "h::x",
        "ftp://h/x",
        "https://",
        "ssh://-o/x",
        "a\nb",
        "h: x",
        "https://me:a/b@h/x",
    ],
)
def test_urls_that_it_is_not(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        check_url(url)


@pytest.mark.parametrize(
    "wish",
    [
        {"urls": ()},
        {"tag": "v1", "branch": "main"},
        {"commit": "abc"},
        {"tag": "a b"},
        {"submodule_urls": {"": URL}},
        {"submodule_urls": {"../x": URL}},
        {"submodule_urls": {"x": "ext::y"}},
        {"mirrors": ("ext::y",)},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(wish: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        GitRequest(**{"name": "x", "urls": (URL,), **wish})  # type: ignore[arg-type]


def test_submodules_of_a_pin_are_sorted_and_distinct() -> None:
    one, two = (SubmodulePin(path=path, commit="a" * 40, tree="b" * 40) for path in ("a", "b"))

    def pin(*submodules: SubmodulePin) -> GitPin:
        return GitPin(name="x", commit="a" * 40, tree="b" * 40, nar=Digest("c" * 64), size=1, submodules=submodules)

    assert pin(one, two).submodules == (one, two)
    for wrong in ((two, one), (one, one)):
        with pytest.raises(ValueError, match="sorted"):
            pin(*wrong)
