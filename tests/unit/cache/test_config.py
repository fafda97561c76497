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
        'config.toml: caches."a b"',
        'config.toml: caches."a b".more',
        'config.toml: caches."a b".registry',
        'config.toml: caches."a b".repository',
        'config.toml: caches."a b".order',
        'config.toml: caches."a b".patience',
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


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "127.0.0.1:5000/x",
            "neither http:// nor https:// before '127.0.0.1:5000/x'",
            "write http://127.0.0.1:5000/x, or https:// where the registry speaks TLS",
        ),
        (
            "ann:secret@registry.example/x",
            "neither http:// nor https:// before 'registry.example/x'",
            "write http://registry.example/x, or https:// where the registry speaks TLS",
        ),
        (
            "http://host",
            "no repository after http://host",
            "write http://host/team/cache: a cache is one repository of a registry",
        ),
        (
            "https://ann:secret@host//",
            "no repository after https://host",
            "write https://host/team/cache: a cache is one repository of a registry",
        ),
    ],
)
def test_half_a_place_is_told_with_what_it_lacks(text: str, message: str, hint: str) -> None:
    with pytest.raises(InputErrors) as caught:
        parse_place(text, None)
    (problem,) = caught.value.problems()
    assert (problem.message, problem.hint) == (message, hint)


@pytest.mark.parametrize("registry", ["http://h\\n", "http://h x", "http://h/#part", "http://h?a=b", "http://h\\u001b"])
def test_a_registry_whose_url_has_more_than_a_place_is_refused_with_its_key(registry: str) -> None:
    text = f'[caches.a]\nregistry = "{registry}"\nrepository = "x"\n'.encode()
    with pytest.raises(InputErrors) as caught:
        parse_caches(text, FILE)
    assert problems(caught.value) == [
        ("config.toml: caches.a.registry", "not an http or https URL of a registry"),
    ]


@pytest.mark.parametrize("patience", ["0", "3601", "9" * 400, "9" * 5000, "0x" + "f" * 5000, "true", "1.5"])
def test_a_patience_beyond_an_hour_is_refused_with_its_key(patience: str) -> None:
    text = f'[caches.a]\nregistry = "http://h"\nrepository = "x"\npatience = {patience}\n'.encode()
    with pytest.raises(InputErrors) as caught:
        parse_caches(text, FILE)
    assert problems(caught.value) == [
        ("config.toml: caches.a.patience", "not a whole number of seconds from 1 to 3600"),
    ]


def test_settings_that_are_nested_too_deep_are_refused_with_their_file() -> None:
    with pytest.raises(InputErrors) as caught:
        parse_caches(b"caches = " + b"[" * 3000, FILE)
    assert [where for where, _ in problems(caught.value)] == [FILE]


def test_what_moves_a_cursor_is_escaped_in_names_and_keys() -> None:
    with pytest.raises(InputErrors) as caught:
        parse_caches(b'[caches."a\\u001b"]\n"\\u001b[2J" = 1\n', FILE)
    assert all(one.where.isprintable() and one.message.isprintable() for one in caught.value.problems())


@pytest.mark.parametrize("other", ["http://127.0.0.1:5000/", "http://name:word@127.0.0.1:5000"])
def test_one_place_under_two_names_is_refused_with_both_keys(other: str) -> None:
    text = TEXT + f'[caches.twin]\nregistry = "{other}"\nrepository = "team/cache"\n'.encode()
    with pytest.raises(InputErrors) as caught:
        parse_caches(text, FILE)
    message = "the same place as caches.office: http://127.0.0.1:5000/team/cache"
    assert problems(caught.value) == [("config.toml: caches.twin", message)]


def test_a_place_that_has_a_name_is_not_added_under_another() -> None:
    with pytest.raises(InputErrors) as caught:
        with_cache(TEXT, FILE, CacheConfig(name="twin", registry="http://127.0.0.1:5000", repository="team/cache"))
    message = "this place has a name already, office: http://127.0.0.1:5000/team/cache"
    assert problems(caught.value) == [("config.toml: caches.office", message)]


def test_nothing_is_added_where_the_caches_stand_in_one_line() -> None:
    inline = b'caches = { a = { registry = "http://127.0.0.1:1", repository = "x" } }\n'
    with pytest.raises(InputErrors) as caught:
        with_cache(inline, FILE, CacheConfig(name="b", registry="http://h", repository="x"))
    assert problems(caught.value) == [(FILE, "its caches stand in a form that is not edited here")]


CACHE = '[caches.a]\nregistry = "http://h"\nrepository = "x"\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "# of what follows\n[executors.one]\njobs = 1\n"),
        ("", "  # of what follows\n\n# more\n"),
        ('[notes]\ntext = """\n[caches.a]\nkept = \\"\\"\\" 1\n""""\n', "[mirrors]\n"),
        ("[notes]\ntext = '''\n[caches.a]\n\"'''\nlist = [\n  1, # [\n]\n", ""),
        ("# [caches.a]\n", "[z]\nname = 'it is \"'\n"),
        ("mine = 'x' # it's\r\n", "[z]\r\na = 1"),
    ],
)
def test_a_cache_is_cut_out_and_every_other_byte_stays(before: str, after: str) -> None:
    assert without_cache((before + CACHE + after).encode(), FILE, "a") == (before + after).encode()


@pytest.mark.parametrize("heading", ['[caches."a"] # here', "[ caches . 'a' ]", '["caches"."\\u0061"]'])
def test_a_cache_is_found_however_its_heading_is_written(heading: str) -> None:
    text = CACHE.replace("[caches.a]", heading)
    assert without_cache(f"# first\n{text}[z]\n".encode(), FILE, "a") == b"# first\n[z]\n"


def test_what_is_added_and_taken_away_again_leaves_no_trace() -> None:
    new = CacheConfig(name="site", registry="http://127.0.0.1:7", repository="a/b")
    assert without_cache(with_cache(TEXT, FILE, new), FILE, "site") == TEXT
