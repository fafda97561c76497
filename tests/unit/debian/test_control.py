# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.debian.control import parse_stanza
from derive.errors import Corrupt
from support.archives import said

GOOD = b"Package: libc6\nArchitecture: arm64\nVersion: 1:2.41-12\nMulti-Arch: same\n"


def test_fields_keep_their_order_their_text_and_their_further_lines() -> None:
    stanza = parse_stanza("x", GOOD + b"Description: C library\n one\n .\n two\nX-Empty:\nTag:\n a,\n b\n")
    assert [name for name, _ in stanza.fields][-3:] == ["Description", "X-Empty", "Tag"]
    assert stanza.get("description") == "C library\n one\n .\n two"
    assert stanza.get("X-Empty") == ""
    assert stanza.get("Tag") == "\n a,\n b"
    assert stanza.get("Absent", "no") == "no"


def test_the_identity_is_at_hand() -> None:
    stanza = parse_stanza("x", GOOD)
    assert (stanza.package, stanza.version, stanza.architecture) == ("libc6", "1:2.41-12", "arm64")
    assert stanza.multi_arch_same
    assert not parse_stanza("x", GOOD.replace(b"same", b"foreign")).multi_arch_same


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no field"),
        (b" begins with a continuation\n" + GOOD, "no field"),
        (GOOD + b"\nPackage: second\n", "no field"),
        (GOOD + b"nonsense\n", "no field"),
        (GOOD + b"package: again\n", "given twice"),
        (GOOD.replace(b"libc6", b"../libc6"), "valid Package"),
        (GOOD.replace(b"libc6", b""), "valid Package"),
        (GOOD.replace(b"arm64", b"a/b"), "valid Package"),
        (GOOD.replace(b"Version: 1:2.41-12\n", b""), "valid Package"),
        (GOOD + b"X: \xff\n", "not UTF-8"),
    ],
)
def test_what_is_no_stanza_of_a_package_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(Corrupt) as caught:
        parse_stanza("x.deb", data)
    assert why in said(caught.value)
    assert "x.deb" in said(caught.value)
