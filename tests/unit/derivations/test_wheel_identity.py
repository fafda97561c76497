# SPDX-License-Identifier: Apache-2.0
"""A wheel that is unpacked by itself is the very step that unpacks it among others, if it is named in the same way."""

from __future__ import annotations

import pytest

from derive.derivations.declarations import parse_declarations

WHEEL = """\
[one]
builder = "unpack"
kind = "wheel"
from = { set = "python", wheel = "aa", python = "3.13" }
identity = "facts"

[two]
builder = "patch"
from = "one"
series = "aa"
identity = "facts"
"""


def test_an_unpacked_and_a_patched_wheel_may_be_named_by_facts() -> None:
    parsed = parse_declarations(WHEEL.encode(), "derivations/x.toml")
    assert parsed.problems == []
    assert {name: getattr(one, "identity", None) for name, one in parsed.declarations.items()} == {
        "one": "facts",
        "two": "facts",
    }


@pytest.mark.parametrize(
    ("kind", "source"), [("deb", '{ set = "debian", deb = "aa" }'), ("tar", '{ set = "debian", source = "aa" }')]
)
def test_nothing_else_that_is_unpacked_has_another_identity(kind: str, source: str) -> None:
    text = f'[one]\nbuilder = "unpack"\nkind = "{kind}"\nfrom = {source}\nidentity = "facts"\n'
    (problem,) = parse_declarations(text.encode(), "derivations/x.toml").problems
    assert problem.where == "derivations/x.toml: one"
    assert problem.message == f"identity is for wheels: the digest of a {kind} is its NAR's"
