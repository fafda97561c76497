# SPDX-License-Identifier: Apache-2.0
"""A project's page on a Python package index, as JSON or as HTML: which files it has and where each lies.

Core: no IO.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from derive.canonical import Digest

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleFile:
    """One file of a project. ``metadata`` is the hash of its served METADATA, None where none is promised."""

    file: str
    url: str
    sha256: Digest | None = None
    size: int | None = None
    requires_python: str | None = None
    yanked: bool = False
    metadata: Digest | None = None


class PageError(ValueError):
    """A page that is no project page."""


def parse_page(body: bytes, *, content_type: str, url: str) -> tuple[SimpleFile, ...]:
    """Parse a project page; ``url`` is where it came from, against which its links are resolved.

    Raises:
        PageError: when it is neither a JSON nor an HTML project page.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind.endswith("json"):
        return _parse_json(body, url)
    if kind.endswith("html"):
        return _parse_html(body, url)
    raise PageError(f"a page of type {kind or 'unknown'} is no project page")


def _parse_json(body: bytes, url: str) -> tuple[SimpleFile, ...]:
    try:
        files = json.loads(body)["files"]
        return tuple(_json_file(item, url) for item in files)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise PageError(f"not a project page: {error}") from error


def _json_file(item: dict[str, Any], url: str) -> SimpleFile:
    metadata = item.get("core-metadata", item.get("data-dist-info-metadata"))
    size = item.get("size")
    return SimpleFile(
        file=str(item["filename"]),
        url=urljoin(url, str(item["url"])),
        sha256=_digest(item.get("hashes", {}).get("sha256")),
        size=size if isinstance(size, int) else None,
        requires_python=item.get("requires-python") or None,
        yanked=item.get("yanked", False) is not False,
        metadata=_digest(metadata.get("sha256")) if isinstance(metadata, dict) else None,
    )


def _digest(text: object) -> Digest | None:
    try:
        return Digest(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _parse_html(body: bytes, url: str) -> tuple[SimpleFile, ...]:
    parser = _Anchors(url)
    parser.feed(body.decode("utf-8", "replace"))
    return tuple(parser.files)


class _Anchors(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._base = url
        self.files: list[SimpleFile] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        href = found.get("href")
        if href is None:
            return
        try:
            target = urljoin(self._base, href)
        except ValueError:  # no URL at all: it leads to no file
            return
        if tag == "base":
            self._base = target
        elif tag == "a":
            link, fragment = urldefrag(target)
            metadata = found.get("data-core-metadata") or found.get("data-dist-info-metadata") or ""
            self.files.append(
                SimpleFile(
                    file=unquote(urlsplit(link).path.rpartition("/")[2]),
                    url=link,
                    sha256=_digest(fragment.removeprefix("sha256=")),
                    requires_python=found.get("data-requires-python") or None,
                    yanked="data-yanked" in found,
                    metadata=_digest(metadata.removeprefix("sha256=")),
                )
            )
