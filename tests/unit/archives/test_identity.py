# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.archives.identity import Expected, Stated, check_identity
from derive.errors import InputErrors
from support.archives import said

EXPECTED = Expected(name="a", version="1", architecture="arm64")


def test_the_same_is_accepted() -> None:
    check_identity("x", EXPECTED, Stated(name="a", version="1", architectures=frozenset(("arm64", "amd64"))))


def test_names_are_compared_as_asked() -> None:
    check_identity("x", EXPECTED, Stated(name="A", version="1"), name=str.lower)


def test_everything_that_differs_is_said_at_once_with_both_sides() -> None:
    with pytest.raises(InputErrors) as caught:
        check_identity("x.deb", EXPECTED, Stated(name="b", version="2", architectures=frozenset(("amd64",))))
    text = said(caught.value)
    assert len(caught.value.problems()) == 3
    for line in ("expected  a", "got       b", "expected  1", "got       2", "expected  arm64", "got       amd64"):
        assert line in text.splitlines()


@pytest.mark.parametrize("architecture", [None, "amd64"])
def test_an_artifact_that_says_no_architecture_fits_any(architecture: str | None) -> None:
    check_identity("x", Expected(name="a", version="1", architecture=architecture), Stated(name="a", version="1"))
