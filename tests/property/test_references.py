# SPDX-License-Identifier: Apache-2.0
"""What is found in a stream does not depend on how it is cut into pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.sandbox.references import SANDBOX_PATHS, Matcher

TEXTS = (*SANDBOX_PATHS, b"/srv/build/store", b"/in/store")
WORDS = st.sampled_from(
    [
        *TEXTS,
        b"/",
        b"//",
        b"/in",
        b"/o",
        b"ut",
        b"-I",
        b"x",
        b".",
        b" ",
        b"\0",
        b"\xff",
        b"a" * 70,
        b"(",
        b"/b",
        b"uild",
    ]
)
CONTENTS = st.lists(WORDS, max_size=40).map(b"".join)


def search(*pieces: bytes) -> dict[bytes, tuple[int, int]]:
    matcher = Matcher(TEXTS)
    for piece in pieces:
        matcher.feed(piece)
    return matcher.finish()


@settings(max_examples=500)
@given(head=st.sampled_from([b"", b" " * 8192, b"\0" + b" " * 8192]), contents=CONTENTS, data=st.data())
def test_pieces_make_no_difference(head: bytes, contents: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(contents)), max_size=6)))
    edges = [0, *cuts, len(contents)]
    pieces = [contents[start:end] for start, end in pairwise(edges)]
    assert search(head, *pieces) == search(head + contents)


@given(contents=CONTENTS)
def test_single_bytes_make_no_difference(contents: bytes) -> None:
    assert search(*(contents[at : at + 1] for at in range(len(contents)))) == search(contents)


@given(before=CONTENTS, after=CONTENTS)
def test_a_path_between_blanks_is_always_found(before: bytes, after: bytes) -> None:
    first, count = search(before + b" /build " + after)[b"/build"]
    assert first <= len(before) + 1
    assert count >= 1
