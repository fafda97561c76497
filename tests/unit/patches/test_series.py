# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.patches.series import Series, licence_expression, parse_series


def test_a_series_is_its_licence_and_its_order() -> None:
    data = b"# licence: gpl-2.0-only or bsd-2-clause\n\n# why\n0002-b.patch -p1\n  0001-a.patch   # first? no\n"
    assert parse_series(data) == Series(licence="GPL-2.0-only OR BSD-2-Clause", names=("0002-b.patch", "0001-a.patch"))


def test_comments_and_blank_lines_are_nothing() -> None:
    one = parse_series(b"# licence: MIT\n0001-a.patch\n")
    assert parse_series(b"\n# another\n# licence: MIT\n\n#0002-off.patch\n0001-a.patch # x\n\n") == one


def test_a_series_may_be_empty() -> None:
    assert parse_series(b"# licence: MIT\n").names == ()


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        (b"0001-a.patch\n", "s", "no licence"),
        (b"# licence: GPL2+\n", "s: line 1", "no SPDX expression"),
        (b"# licence: MIT\n# licence: MIT\n", "s: line 2", "second licence"),
        (b"# license: MIT\n", "s: line 1", "licence line is spelled otherwise"),
        (b"# licence: MIT\n0001-a.patch\n0001-a.patch\n", "s: line 3", "second time, first in line 2"),
        (b"# licence: MIT\n../0001-a.patch\n", "s: line 2", "not in the folder"),
        (b"# licence: MIT\n.hidden.patch\n", "s: line 2", "not the name of a patch"),
        (b"# licence: MIT\n0001-a.diff\n", "s: line 2", "not the name of a patch"),
        (b"# licence: MIT\n0001-a.patch -p0\n", "s: line 2", "option -p0"),
        (b"# licence: MIT\n0001-a.patch -p1 -R\n", "s: line 2", "option -p1 -R"),
        (b"# licence: MIT\n\xff.patch\n", "s: line 2", "not UTF-8"),
        (b"# licence: MIT\r\n0001-a.patch\r\n", "s: line 1", "CRLF"),
    ],
)
def test_faults_of_a_series_have_their_line(data: bytes, where: str, message: str) -> None:
    with pytest.raises(InputErrors) as caught:
        parse_series(data, where="s")
    assert any(p.where == where and message in p.message for p in caught.value.problems())


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(InputErrors) as caught:
        parse_series(b"a/b.patch\nx\n0001-a.patch -p2\n")
    assert len(caught.value.problems()) == 4


def test_a_licence_is_an_spdx_expression() -> None:
    assert licence_expression("apache-2.0 with llvm-exception") == "Apache-2.0 WITH LLVM-exception"
    with pytest.raises(ValueError, match="no SPDX expression"):
        licence_expression("")
