# SPDX-License-Identifier: Apache-2.0
"""A comparison never fails on bytes, tells nothing of equal ones, and something of all others."""

from __future__ import annotations

import gzip
from io import BytesIO

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.differ.differ import differ
from derive.differ.marshalled import read_marshalled
from derive.differ.model import Unread
from support.differing import tarred, zipped
from support.elves import elf

NAMES = st.sampled_from(["a", "a.json", "a.pyc", "a.whl", "a.tar.gz", "a.so"])
MEMBERS = {"a/b": b"contents", "c.json": b'{"a": 1}'}
WHOLE = [
    zipped(MEMBERS),
    tarred(MEMBERS),
    gzip.compress(tarred(MEMBERS), mtime=0),
    elf(needed=["libc.so.6"]),
    b"\xa7\r\r\n" + bytes(12) + b"\xe3" + bytes(40),
    b"!<arch>\n" + b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (b"a", 0, 0, 0, 0o644, 4) + b"1234",
    b'{"a": [1, 2, {"b": null}]}',
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A file of a known format with some bytes changed, cut or doubled."""
    data = bytearray(draw(st.sampled_from(WHOLE)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data) - 1))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
        if not data:
            return b""
    return bytes(data[: draw(st.integers(1, len(data)))])


@given(NAMES, st.one_of(st.binary(max_size=200), damaged()), st.one_of(st.binary(max_size=200), damaged()))
@settings(max_examples=250, deadline=None)
def test_any_two_files_are_told_apart_and_none_from_itself(name: str, first: bytes, second: bytes) -> None:
    assert bool(differ(name, first, second)) == (first != second)
    assert differ(name, first, first) == []


@given(st.binary(max_size=120))
@settings(max_examples=200, deadline=None)
def test_any_marshalled_bytes_are_read_or_refused(data: bytes) -> None:
    for kind in (b"\xe3", b"\xa9\x02", b"{", b""):
        try:
            read_marshalled(kind + BytesIO(data).getvalue())
        except Unread:
            continue
