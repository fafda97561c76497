# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.archives.ar import ArMember, read_ar
from derive.errors import Corrupt
from support.archives import ar, said


def members(data: bytes) -> tuple[ArMember, ...]:
    return read_ar("x.a", lambda offset, size: data[offset : offset + size], len(data))


def test_members_lie_where_they_are_said_to() -> None:
    data = ar((b"odd", b"123"), (b"even/", b"1234"), (b"none", b""))
    assert members(data) == (
        ArMember(name=b"odd", offset=68, size=3),
        ArMember(name=b"even", offset=132, size=4),
        ArMember(name=b"none", offset=196, size=0),
    )
    assert data[68:71] == b"123"


def test_an_archive_without_members_is_empty() -> None:
    assert members(b"!<arch>\n") == ()


def test_a_last_member_of_odd_size_needs_no_padding() -> None:
    assert len(members(ar((b"odd", b"123"))[:-1])) == 1


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not an ar archive"),
        (b"!<arch>", "not an ar archive"),
        (b"!<thin>\n", "not an ar archive"),
        (ar((b"a", b"12")) + b"junk", "after the last member"),
        (ar((b"a", b"12"))[:-1], "cut short"),
        (ar((b"a", b"123"), (b"b", b"")).replace(b"123\n", b"123X"), "no padding"),
        (ar((b"a", b"12")).replace(b"`\n", b"``"), "no ar header at byte 8"),
        (ar((b"a", b"12")).replace(b"2         `", b"-1        `"), "no ar header at byte 8"),
        (ar(*[(b"a", b"")] * 65), "more than 64"),
    ],
)
def test_what_is_no_ar_archive_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(Corrupt) as caught:
        members(data)
    assert why in said(caught.value)
