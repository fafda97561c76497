# SPDX-License-Identifier: Apache-2.0
"""A site's digest: of what its file says with all that it leaves out filled in, whatever its layout.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from derive.canonical import Digest, Json, digest_document
from derive.fabric.site import Site

TAG = "site/1"
_NOT_OF_IT = ("shapes", "example")


def site_document(site: Site) -> dict[str, Json]:
    """Return a site as a canonical document; the shapes that it picked are not what a launch depends on."""
    return {
        "derive": TAG,
        **{key.replace("_", "-"): _keyed(value) for key, value in asdict(site).items() if key not in _NOT_OF_IT},
    }


def site_digest(site: Site) -> Digest:
    """Return the digest of that document."""
    return digest_document(site_document(site))


def _keyed(value: Json) -> Json:
    """Write the names of fields as keys."""
    if isinstance(value, Mapping):
        return {key.replace("_", "-"): _keyed(item) for key, item in value.items()}
    return [_keyed(item) for item in value] if isinstance(value, list | tuple) else value
