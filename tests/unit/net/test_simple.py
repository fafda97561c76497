# SPDX-License-Identifier: Apache-2.0
"""Project pages, as JSON and as HTML."""

from __future__ import annotations

import json

import pytest

from derive.canonical import Digest
from derive.net.simple import PageError, SimpleFile, parse_page

A = "a" * 64
B = "b" * 64
JSON = "application/vnd.pypi.simple.v1+json"


def test_json_and_html_say_the_same() -> None:
    expected = SimpleFile(
        file="x-1+local-py3-none-any.whl",
        url="http://h/files/x-1%2Blocal-py3-none-any.whl",
        sha256=Digest(A),
        requires_python=">=3.9,<4",
        yanked=True,
        metadata=Digest(B),
    )
    page = {
        "files": [
            {
                "filename": "x-1+local-py3-none-any.whl",
                "url": "../../files/x-1%2Blocal-py3-none-any.whl",
                "hashes": {"sha256": A},
                "requires-python": ">=3.9,<4",
                "yanked": "broken",
                "core-metadata": {"sha256": B},
            }
        ]
    }
    html = (
        f'<html><a href="../../files/x-1%2Blocal-py3-none-any.whl#sha256={A}" data-yanked="broken"'
        f' data-requires-python="&gt;=3.9,&lt;4" data-core-metadata="sha256={B}">x</a></html>'
    )
    url = "http://h/simple/x/"
    assert parse_page(json.dumps(page).encode(), content_type=JSON, url=url) == (expected,)
    assert parse_page(html.encode(), content_type="text/html; charset=UTF-8", url=url) == (expected,)


def test_sizes_and_absences_are_read_from_json() -> None:
    page = {"files": [{"filename": "x", "url": "http://h/x", "hashes": {}, "size": 7, "core-metadata": True}]}
    (found,) = parse_page(json.dumps(page).encode(), content_type="application/json", url="http://h/")
    assert found == SimpleFile(file="x", url="http://h/x", size=7)


def test_a_base_moves_links() -> None:
    html = '<head><base href="http://other/root/"></head><a href="f/x.whl">x</a><a name="anchor">y</a>'
    (found,) = parse_page(html.encode(), content_type="text/html", url="http://h/simple/x/")
    assert found.url == "http://other/root/f/x.whl"


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"[]", JSON), (b"{", JSON), (b'{"files": [{}]}', JSON), (b"[" * 100_000, JSON), (b"hi", "text/plain"), (b"", "")],
)
def test_what_is_no_project_page_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(PageError):
        parse_page(body, content_type=kind, url="http://h/")


def test_a_link_that_is_no_url_leads_nowhere() -> None:
    html = '<base href="http://[::1"><a href="http://[::1/x.whl">x</a><a href="y.whl">y</a>'
    (found,) = parse_page(html.encode(), content_type="text/html", url="http://h/simple/")
    assert found.url == "http://h/simple/y.whl"
