# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.archives.deb import DebParts, read_deb
from derive.errors import Corrupt
from support.archives import ar, said

VERSION = (b"debian-binary", b"2.0\n")
CONTROL = (b"control.tar.xz", b"cc")
DATA = (b"data.tar.xz", b"dddd")


def parts(data: bytes) -> DebParts:
    return read_deb("x.deb", lambda offset, size: data[offset : offset + size], len(data))


@pytest.mark.parametrize("suffix", [b"", b".gz", b".xz", b".bz2", b".zst"])
def test_the_two_archives_are_found(suffix: bytes) -> None:
    found = parts(ar(VERSION, (b"control.tar" + suffix, b"cc"), (b"data.tar" + suffix, b"dddd")))
    assert (found.control.size, found.data.size) == (2, 4)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (ar(VERSION, DATA, CONTROL), "not a .deb"),
        (ar(CONTROL, DATA, VERSION), "not a .deb"),
        (ar(VERSION, CONTROL), "not a .deb"),
        (ar(VERSION, CONTROL, DATA, DATA), "not a .deb"),
        (ar(VERSION, (b"_gpgorigin", b""), CONTROL, DATA), "not a .deb"),
        (ar(VERSION, CONTROL, (b"data.zip", b"")), "not a .deb"),
        (ar((b"debian-binary", b"3.0\n"), CONTROL, DATA), "another format"),
        (ar((b"debian-binary", b"2.0\nmore"), CONTROL, DATA), "another format"),
        (b"PK\3\4", "not an ar archive"),
    ],
)
def test_other_members_another_order_or_another_format_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(Corrupt) as caught:
        parts(data)
    assert why in said(caught.value)


def test_the_error_shows_what_the_archive_holds() -> None:
    with pytest.raises(Corrupt) as caught:
        parts(ar(VERSION, DATA))
    assert "got       debian-binary, data.tar.xz" in said(caught.value)
