# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.canonical import Json, decode, encode
from derive.debian.declaration import (
    Account,
    Alternative,
    Excuse,
    Group,
    Replaces,
    RootDeclaration,
    TextFile,
    from_document,
    root_path,
    to_document,
)
from derive.errors import InputErrors
from support.archives import said

FULL = RootDeclaration(
    architecture="arm64",
    accounts=(Account(name="a", uid=1000, gid=1000), Account(name="b", uid=7, gid=7, gecos="B ä", home="/b")),
    groups=(Group(name="a", gid=1000),),
    alternatives=(Alternative(link=b"usr/bin/awk", target=b"usr/bin/m\xffawk"),),
    files=(TextFile(path=b"etc/shells", text="/bin/sh\n"),),
    replaces=(Replaces(path=b"etc/x", package="hello"),),
    covered=(Excuse(pattern="base-passwd.*", reason="accounts"),),
    waived=(Excuse(pattern="libc6.postinst", reason="no cache is needed"),),
)


def wrong(**changed: Json) -> str:
    with pytest.raises(InputErrors) as caught:
        from_document({**to_document(FULL), **changed}, where="root")
    return said(caught.value)


def test_a_declaration_goes_through_canonical_json_and_back() -> None:
    document = decode(encode(to_document(FULL)))
    assert isinstance(document, dict)
    assert from_document(document) == FULL


@given(st.permutations(FULL.accounts))
def test_the_order_in_which_things_are_declared_decides_nothing(accounts: list[Account]) -> None:
    from dataclasses import replace

    assert to_document(replace(FULL, accounts=tuple(accounts))) == to_document(FULL)


def test_the_name_of_an_alternative_is_the_last_component_of_its_link() -> None:
    assert FULL.alternatives[0].name == b"awk"


@pytest.mark.parametrize(("text", "path"), [("/etc/shells", b"etc/shells"), ("/ä", "ä".encode())])
def test_people_write_absolute_paths(text: str, path: bytes) -> None:
    assert root_path(text) == path


@pytest.mark.parametrize("text", ["", "/", "etc", "/a/../b", "//a", "/a/", "/a\0"])
def test_a_path_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - every kind of wrong path
        root_path(text)


def test_every_problem_is_said_at_once_with_its_place() -> None:
    text = wrong(
        extra=1,
        architecture=5,
        accounts=[{"name": "Bad Name", "uid": -1, "gid": 2**32, "gecos": "a:b", "home": "/", "shell": "a\nb"}],
        groups=[{"name": "ok", "gid": True, "more": 1}],
        alternatives=[{"link": "../a", "target": ""}],
        files="none",
        waived=[{"pattern": "x", "reason": " "}, {"pattern": "x", "reason": "y"}, 5],
    )
    for line in (
        "root.extra: an unknown key",
        "root.architecture: a text is needed",
        "root.accounts[0].name: not the name of an account",
        "root.accounts[0].uid: a number",
        "root.accounts[0].gid: a number",
        "root.accounts[0].gecos: a field of a passwd line",
        "root.accounts[0].shell: a field of a passwd line",
        "root.groups[0].gid: a number",
        "root.groups[0].more: an unknown key",
        "root.alternatives[0].link: not a path inside a tree",
        "root.alternatives[0].target: a path below the root is needed",
        "root.files: a list of objects is needed",
        "root.waived[0].reason: a reason is needed",
        "root.waived[1]: given twice",
        "root.waived[2]: an object is needed",
    ):
        assert line in text, line


def test_two_alternatives_of_one_name_are_refused() -> None:
    both: Json = [{"link": "usr/bin/awk", "target": "a"}, {"link": "usr/local/bin/awk", "target": "b"}]
    assert "alternatives[1]: given twice" in wrong(alternatives=both)
