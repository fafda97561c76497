# SPDX-License-Identifier: Apache-2.0
"""What a page of HTML is made of: its elements, their attributes, its headings; for tests.

Core: no IO.
"""

from __future__ import annotations

from html.parser import HTMLParser

VOID = frozenset({"meta", "br", "link", "img", "hr", "input"})


class Outline(HTMLParser):
    """Elements in order, what was not closed in order, attributes, headings, text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.tags: dict[str, int] = {}
        self.headings: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.order: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.order.append(" ".join([tag, *sorted(key for key, _ in attrs)]))
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        held = dict(attrs)
        if "id" in held:
            self.ids.append(held["id"] or "")
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("h1", "h2", "h3"):
            self.headings.append(f"{tag} ")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings[-1] += data


def outline(html: bytes) -> Outline:
    found = Outline()
    found.feed(html.decode())
    found.close()
    return found
