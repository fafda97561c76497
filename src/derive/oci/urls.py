# SPDX-License-Identifier: Apache-2.0
"""Where a registry keeps things, as the OCI distribution specification says.

Core: no IO.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from derive.canonical import Digest


def manifest_url(registry: str, repository: str, named: str) -> str:
    """Return the URL of a manifest; ``named`` is a tag or a digest."""
    return f"{_base(registry)}/{repository}/manifests/{named}"


def blob_url(registry: str, repository: str, digest: Digest) -> str:
    """Return the URL of a blob."""
    return f"{_base(registry)}/{repository}/blobs/{digest}"


def uploads_url(registry: str, repository: str, *, mount: Digest | None = None, source: str = "") -> str:
    """Return where an upload begins; with ``mount``, of a blob that the repository ``source`` may have already."""
    begin = f"{_base(registry)}/{repository}/blobs/uploads/"
    return begin if mount is None else f"{begin}?{urlencode({'mount': str(mount), 'from': source})}"


def finish_url(upload: str, digest: Digest) -> str:
    """Return the URL that ends an upload whose URL is known."""
    parts = urlsplit(upload)
    query = f"{parts.query}&" if parts.query else ""
    return urlunsplit((parts.scheme, parts.netloc, parts.path, f"{query}digest={quote(str(digest))}", ""))


def referrers_url(registry: str, repository: str, subject: Digest) -> str:
    """Return the URL of the index of what refers to a manifest, where a registry keeps one itself."""
    return f"{_base(registry)}/{repository}/referrers/{subject}"


def referrers_tag(subject: Digest) -> str:
    """Return the tag of the index of what refers to a manifest, where those who push have to keep it."""
    return f"sha256-{subject.hex}"


def _base(registry: str) -> str:
    """Return what a repository's name is put after; a path in a registry's URL stands before the repository's name."""
    parts = urlsplit(registry)
    path = parts.path.strip("/")
    path = path.removeprefix("v2").strip("/") if path == "v2" or path.startswith("v2/") else path
    return urlunsplit((parts.scheme, parts.netloc, f"/v2/{path}" if path else "/v2", "", ""))
