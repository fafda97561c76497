# SPDX-License-Identifier: Apache-2.0
"""Where a registry keeps things, as the OCI distribution specification says.

Core: no IO.
"""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from derive.canonical import Digest


def manifest_url(registry: str, repository: str, named: str) -> str:
    """Return the URL of a manifest; ``named`` is a tag or a digest."""
    return f"{_base(registry)}/{repository}/manifests/{named}"


def blob_url(registry: str, repository: str, digest: Digest) -> str:
    """Return the URL of a blob."""
    return f"{_base(registry)}/{repository}/blobs/{digest}"


def _base(registry: str) -> str:
    """Return what a repository's name is put after; a path in a registry's URL stands before the repository's name."""
    parts = urlsplit(registry)
    path = parts.path.strip("/")
    path = path.removeprefix("v2").strip("/") if path == "v2" or path.startswith("v2/") else path
    return urlunsplit((parts.scheme, parts.netloc, f"/v2/{path}" if path else "/v2", "", ""))
