# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.cache.config import CacheConfig, parse_caches, parse_place, with_cache, without_cache
from derive.errors import InputErrors

FILE = "config.toml"
TEXT = b"""\
# my machine
[mirrors]
python = "http://127.0.0.1:1/simple"

[caches.office]
registry = "http://127.0.0.1:5000"
repository = "team/cache"
order = 2

[caches.home]   # slow
registry = "https://name:secret@127.0.0.1:5001"
repository = "mine"
patience = 3
"""


def problems(error: InputErrors) -> list[tuple[str, str]]:
    return [(one.where, one.message) for one in error.problems()]


def test_caches_are_read_in_the_order_in_which_they_are_asked() -> None:
    home, office = parse_caches(TEXT, FILE)
    assert (home.name, home.order, home.patience_s) == ("home", 0, 3)
    assert (office.name, office.order, office.repository) == ("office", 2, "team/cache")


def test_a_place_is_shown_without_its_login() -> None:
    assert parse_caches(TEXT, FILE)[0].place == "https://127.0.0.1:5001/mine"


def test_a_cache_is_added_at_the_end_and_taken_away_and_nothing_else_moves() -> None:
    new = CacheConfig(name="site", registry="http://127.0.0.1:7", repository="a/b", order=-1, patience_s=1)
    added = with_cache(TEXT, FILE, new)
    assert added.startswith(TEXT)
    assert parse_caches(added, FILE)[0] == new
    assert without_cache(added, FILE, "site").rstrip() == TEXT.rstrip()
    assert b"# my machine" in without_cache(TEXT, FILE, "office")
    assert [one.name for one in parse_caches(without_cache(TEXT, FILE, "office"), FILE)] == ["home"]


def test_a_cache_goes_into_an_empty_file() -> None:
    new = CacheConfig(name="site", registry="http://127.0.0.1:7", repository="a/b")
    assert with_cache(b"", FILE, new) == b'[caches.site]\nregistry = "http://127.0.0.1:7"\nrepository = "a/b"\n'


def test_a_name_that_is_taken_and_one_that_is_not_there_are_refused() -> None:
    with pytest.raises(InputErrors) as caught:
        with_cache(TEXT, FILE, CacheConfig(name="home", registry="http://127.0.0.1:7", repository="a"))
    assert problems(caught.value) == [(FILE, "there is a cache named 'home' already")]
    with pytest.raises(InputErrors) as caught:
        without_cache(TEXT, FILE, "hoem")
    assert problems(caught.value) == [(FILE, "there is no cache named 'hoem'")]


def test_caches_in_a_form_that_is_not_edited_are_left_alone() -> None:
    inline = b'caches = { a = { registry = "http://127.0.0.1:1", repository = "x" } }\n'
    with pytest.raises(InputErrors) as caught:
        without_cache(inline, FILE, "a")
    assert problems(caught.value) == [(FILE, "its caches stand in a form that is not edited here")]


def test_everything_wrong_with_caches_is_said_at_once() -> None:
    text = b'[caches."a b"]\nregistry = "ftp://x"\nrepository = "A"\norder = true\npatience = 0\nmore = 1\n[caches.c]\n'
    with pytest.raises(InputErrors) as caught:
        parse_caches(text, FILE)
    assert {where for where, _ in problems(caught.value)} == {
        "config.toml: caches.a b",
        "config.toml: caches.a b.more",
        "config.toml: caches.a b.registry",
        "config.toml: caches.a b.repository",
        "config.toml: caches.a b.order",
        "config.toml: caches.a b.patience",
        "config.toml: caches.c.registry",
        "config.toml: caches.c.repository",
    }


@pytest.mark.parametrize(
    ("text", "registry", "found"),
    [
        ("http://127.0.0.1:5000/team/cache", None, ("http://127.0.0.1:5000", "team/cache")),
        ("https://host/cache/", None, ("https://host", "cache")),
        ("team/cache", "http://127.0.0.1:5000/", ("http://127.0.0.1:5000", "team/cache")),
    ],
)
def test_a_place_is_a_url_or_a_repository_of_a_registry(
    text: str, registry: str | None, found: tuple[str, str]
) -> None:
    assert parse_place(text, registry) == found


@pytest.mark.parametrize(
    ("text", "registry"),
    [
        ("team/cache", None),
        ("http://h/team", "http://h"),
        ("ftp://h/x", None),
        ("http://h/", None),
        ("http:///x", None),
    ],
)
def test_what_is_no_place_is_refused(text: str, registry: str | None) -> None:
    with pytest.raises(InputErrors):
        parse_place(text, registry)
