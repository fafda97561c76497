# SPDX-License-Identifier: Apache-2.0
"""Where repositories may be served: mirrors first, submodules as git resolves them, nothing secret shown."""

from __future__ import annotations

import pytest

from derive.git.places import Place, base_name, is_folder, is_ssh, join_url, mirror_urls, places, submodule_places

BASE = "https://mirror.example/git"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://host.example/group/repo.git", ("host.example/group/repo.git", "name.git")),
        ("https://host.example/group/repo/", ("host.example/group/repo.git", "name.git")),
        ("https://me:word@host.example:8443/repo", ("host.example/repo.git", "name.git")),
        ("ssh://git@host.example:2222/~me/repo.git", ("host.example/~me/repo.git", "name.git")),
        ("git@host.example:group/repo.git", ("host.example/group/repo.git", "name.git")),
        ("host.example:/srv/repo", ("host.example/srv/repo.git", "name.git")),
        ("https://host.example/../../etc", ("host.example/etc.git", "name.git")),
        ("/srv/repo.git", ("name.git",)),
        ("file:///srv/repo.git", ("name.git",)),
    ],
)
def test_a_mirror_serves_by_host_and_path_or_by_name(url: str, found: tuple[str, ...]) -> None:
    assert mirror_urls([f"{BASE}/"], "name", url) == tuple(f"{BASE}/{path}" for path in found)


def test_every_mirror_comes_before_what_a_person_wrote() -> None:
    found = places(("https://a.example/x", "https://b.example/x"), ("/srv/m",), "x")
    assert [(place.url, place.local) for place in found] == [
        ("/srv/m/a.example/x.git", True),
        ("/srv/m/x.git", True),
        ("/srv/m/b.example/x.git", True),
        ("https://a.example/x", False),
        ("https://b.example/x", False),
    ]


@pytest.mark.parametrize(
    ("parent", "url", "joined"),
    [
        ("https://h.example/g/top.git", "../sub.git", "https://h.example/g/sub.git"),
        ("https://h.example/g/top.git/", "../sub.git", "https://h.example/g/sub.git"),
        ("https://h.example/g/top.git", "../../o/sub", "https://h.example/o/sub"),
        ("https://h.example/g/top.git", "./sub.git", "https://h.example/g/top.git/sub.git"),
        ("https://h.example/g/top", "./../sub/", "https://h.example/g/sub"),
        ("git@h.example:g/top.git", "../sub.git", "git@h.example:g/sub.git"),
        ("git@h.example:top.git", "../sub.git", "git@h.example:sub.git"),
        ("/srv/top.git", "../sub.git", "/srv/sub.git"),
        ("https://h.example/g/top.git", "https://o.example/sub", "https://o.example/sub"),
        ("https://h.example/g/top.git", "sub", "sub"),
    ],
)
def test_a_relative_submodule_is_resolved_as_git_does(parent: str, url: str, joined: str) -> None:
    assert join_url(parent, url) == joined


def test_a_submodule_is_looked_for_beside_the_mirror_too() -> None:
    around = (Place("https://h.example/g/top"), Place("https://m.example/top.git"))
    found = submodule_places("../sub.git", around, ())
    assert [place.url for place in found] == ["https://h.example/g/sub.git", "https://m.example/sub.git"]
    mirrored = submodule_places("../sub.git", around[:1], ("https://m.example",))
    assert [place.url for place in mirrored] == [
        "https://m.example/h.example/g/sub.git.git".replace(".git.git", ".git"),
        "https://m.example/sub.git",
        "https://h.example/g/sub.git",
    ]


def test_a_submodule_is_a_folder_of_this_machine_only_where_its_parent_is() -> None:
    web, own = Place("https://h.example/top"), Place("/srv/top", local=True)
    assert submodule_places("/etc/secret", (web,), ()) == ()
    assert submodule_places("file:///etc/secret", (web,), ()) == ()
    assert submodule_places("../sub", (own,), ()) == (Place("/srv/sub", local=True),)
    assert submodule_places("../sub", (web,), ("/srv/m",))[0].local


@pytest.mark.parametrize(
    ("url", "folder", "ssh"),
    [
        ("/srv/x", True, False),
        ("file:///srv/x", True, False),
        ("C/x:y", True, False),
        ("https://h/x", False, False),
        ("ssh://h/x", False, True),
        ("git+ssh://h/x", False, True),
        ("me@h:x", False, True),
        ("h:x", False, True),
        ("[::1]:x", False, True),
        ("ext::sh -c true", False, False),
    ],
)
def test_folders_and_ssh_are_told_apart(url: str, folder: bool, ssh: bool) -> None:
    assert (is_folder(url), is_ssh(url)) == (folder, ssh)


@pytest.mark.parametrize(
    ("url", "shown", "origin"),
    [
        ("https://me:word@h.example:8/x?token=1", "https://h.example:8/x", "https://h.example:8"),
        ("me@h.example:x", "me@h.example:x", "ssh://h.example"),
        ("/srv/x", "/srv/x", ""),
        ("file:///srv/x", "file:///srv/x", ""),
    ],
)
def test_a_place_is_shown_without_secrets(url: str, shown: str, origin: str) -> None:
    assert (Place(url).shown, Place(url).origin) == (shown, origin)


def test_credentials_are_taken_out_of_what_git_says() -> None:
    place = Place("https://me:p%40ss:w@rd@h.example/x")
    said = f"fatal: unable to access '{place.url}': and https://you:other@o.example/y"
    assert place.redact(said) == "fatal: unable to access 'https://h.example/x': and https://o.example/y"
    assert place.redact("bad password p%40ss:w@rd") == "bad password ..."


@pytest.mark.parametrize(("url", "name"), [("https://h/a/b.git/", "b"), ("h:b", "b"), ("/srv/b.git", "b")])
def test_the_name_of_a_url_is_its_last_part(url: str, name: str) -> None:
    assert base_name(url) == name
