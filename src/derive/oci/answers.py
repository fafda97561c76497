# SPDX-License-Identifier: Apache-2.0
"""What registries say in the headers and bodies of their answers, read without trust.

Core: no IO.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from derive.canonical import Digest
from derive.net.failures import Refused

_RANGE = re.compile(r"(?:bytes=)?0-(\d{1,18})", re.ASCII)
_LONGEST_WORDS = 200


def stated_digest(headers: Mapping[str, str]) -> Digest | None:
    """Return the digest that an answer states of its content; None without one that can be read."""
    try:
        return Digest.parse(headers.get("docker-content-digest", ""))
    except ValueError:
        return None


def stated_size(headers: Mapping[str, str]) -> int | None:
    """Return the length that an answer states; None without one."""
    text = headers.get("content-length", "")
    return int(text) if re.fullmatch(r"\d{1,18}", text, re.ASCII) else None


def received(headers: Mapping[str, str]) -> int | None:
    """Return how many bytes of an upload have come, as its Range header says; None where that cannot be read.

    ``0-0`` is what registries say of an upload without a byte. That it could also mean one byte harms nothing: nobody
    sends a single one.
    """
    match = _RANGE.fullmatch(headers.get("range", "").strip())
    return None if match is None else int(match[1]) + (match[1] != "0")


def smallest_chunk(headers: Mapping[str, str]) -> int:
    """Return the fewest bytes that a registry takes at once, but for the last ones; 0 where it does not care."""
    text = headers.get("oci-chunk-min-length", "").strip()
    return int(text) if re.fullmatch(r"\d{1,12}", text, re.ASCII) else 0


def upload_url(asked: str, headers: Mapping[str, str]) -> str | None:
    """Return where an upload goes on; None where the registry does not say, or leads from TLS into the open.

    Raises:
        Refused: when it says what is no URL.
    """
    location = headers.get("location", "").strip()
    try:
        url = urljoin(asked, location)
        parts = urlsplit(url)
    except ValueError:
        raise Refused(f"says that the upload goes on at what is no URL: {shown(location)}") from None
    is_open = urlsplit(asked).scheme == "https" and parts.scheme != "https"
    return url if location and parts.scheme in ("http", "https") and parts.hostname and not is_open else None


def error_words(body: bytes) -> str:
    """Return what a registry says of a refusal, as one short line; empty where it says nothing readable."""
    try:
        errors = json.loads(body.decode("utf-8"))["errors"]
        said = ", ".join(f"{one.get('code', '')} {one.get('message', '')}".strip() for one in errors)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    return shown(said)


def shown(said: str) -> str:
    """Return what a registry says as a short piece of one line."""
    return "".join(sign if sign.isprintable() else "?" for sign in said[:_LONGEST_WORDS])
