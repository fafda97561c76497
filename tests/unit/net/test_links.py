# SPDX-License-Identifier: Apache-2.0
"""Where the next page is, as a Link header says."""

from __future__ import annotations

import pytest

from derive.net.failures import Refused
from derive.net.links import next_page

HERE = "https://me:secret@a.test/api/x?n=1"


@pytest.mark.parametrize(
    ("header", "after"),
    [
        ('<https://a.test/api/x?cursor=2>; rel="next"', "https://me:secret@a.test/api/x?cursor=2"),
        ("</api/y?cursor=2>; rel=next", "https://me:secret@a.test/api/y?cursor=2"),
        ("<?cursor=2>;REL=NEXT", "https://me:secret@a.test/api/x?cursor=2"),
        ('<https://b.test/other?cursor=2>; rel="next"', "https://me:secret@a.test/api/x?cursor=2"),
        ('<http://a.test/api/z?cursor=2>; rel="next"', "https://me:secret@a.test/api/x?cursor=2"),
        ('</a>; rel="prev", </b>; title="x, y"; rel="last next"', "https://me:secret@a.test/b"),
        ('</a>; rel="prev"', None),
        ("</a>", None),
        ("", None),
        ("nonsense", None),
    ],
)
def test_the_next_page_is_on_the_host_that_was_asked(header: str, after: str | None) -> None:
    assert next_page(header, HERE) == after


def test_a_page_that_follows_itself_is_refused() -> None:
    with pytest.raises(Refused, match="in a circle"):
        next_page(f'<{HERE}>; rel="next"', HERE)


def test_a_next_page_that_is_no_url_is_refused() -> None:
    with pytest.raises(Refused, match="its next page is no URL: http://"):
        next_page('<http://[bad>; rel="next"', HERE)
