# SPDX-License-Identifier: Apache-2.0
"""Answers in several pages: where the next one is, as a Link header says.

Core: no IO.
"""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit, urlunsplit

from derive.net.failures import Refused
from derive.net.places import origin

_LINK = re.compile(r'\s*,?\s*<([^<>]*)>((?:\s*;\s*[a-z*]+\s*=\s*(?:"[^"]*"|[^\s",;]+))*)', re.IGNORECASE)
_RELATION = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s",;]+))', re.IGNORECASE)

_LONGEST = 200


def next_page(header: str, url: str) -> str | None:
    """Return the URL of the page after ``url``, or None when there is none.

    It is on the host that was asked, whatever the header names: a mirror may pass on what it was told itself, and what
    is sent to one host, a login among it, is not to be sent to any that it names.

    Raises:
        Refused: when the page after this one is this one, or is named by what is no URL.
    """
    place = 0
    while link := _LINK.match(header, place):
        place = link.end()
        relation = _RELATION.search(link[2])
        if relation and "next" in (relation[1] or relation[2] or "").lower().split():
            try:
                here, found = urlsplit(url), urlsplit(urljoin(url, link[1]))
            except ValueError:
                shown = link[1][:_LONGEST].encode("unicode_escape").decode()
                raise Refused(f"its next page is no URL: {shown}") from None
            path = found.path if origin(found.geturl()) == origin(url) else here.path
            after: str = urlunsplit((here.scheme, here.netloc, path, found.query, ""))
            if after == url:
                raise Refused("its pages lead in a circle")
            return after
    return None
