# SPDX-License-Identifier: Apache-2.0
"""Package URLs and locators of fetched artifacts: what they are called everywhere, and where on a mirror they lie.

Core: no IO. No host stands in either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.why.graph import Node

if TYPE_CHECKING:
    from packageurl import PackageURL


def purl_of(fetch: Node) -> PackageURL:
    """Return the package URL of an artifact, by what fetches it."""
    from packageurl import PackageURL

    name, version = _text(fetch, "name") or fetch.name, _text(fetch, "version")
    match fetch.builder:
        case "fetch-wheel":
            return PackageURL("pypi", None, name, version)
        case "fetch-deb":
            qualifiers = {"arch": _text(fetch, "architecture"), "distro": _text(fetch, "suite")}
            return PackageURL("deb", "debian", name, version, _said(qualifiers))
        case "fetch-source":
            qualifiers = {"arch": "source", "distro": _text(fetch, "suite")}
            return PackageURL("deb", "debian", name, version, _said(qualifiers))
        case "fetch-huggingface":
            owner, _, model = _text(fetch, "repository").rpartition("/")
            path = _text(fetch, "file") or None
            return PackageURL("huggingface", owner or None, model, _text(fetch, "revision"), None, path)
        case "fetch-oci":
            qualifiers = {"repository_url": _text(fetch, "repository"), "tag": _text(fetch, "tag")}
            return PackageURL("oci", None, name, f"sha256:{_text(fetch, 'sha256')}", _said(qualifiers))
        case _:
            return PackageURL("generic", None, name, version or None)


def locator_of(fetch: Node) -> str:
    """Return where an artifact lies on any mirror of its ecosystem, or nothing where nobody serves it."""
    match fetch.builder:
        case "fetch-deb" | "fetch-source":
            return _text(fetch, "locator")
        case "fetch-wheel":
            return f"{_text(fetch, 'name')}/{_text(fetch, 'file')}"
        case "fetch-git":
            return f"{_text(fetch, 'name')}@{_text(fetch, 'commit')}"
        case "fetch-oci":
            return f"{_text(fetch, 'repository')}@sha256:{_text(fetch, 'sha256')}"
        case "fetch-huggingface":
            return f"{_text(fetch, 'repository')}@{_text(fetch, 'revision')}/{_text(fetch, 'file')}"
        case _:
            return _text(fetch, "file")


def _text(fetch: Node, key: str) -> str:
    value = fetch.arguments.get(key)
    return value if isinstance(value, str) else ""


def _said(qualifiers: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in qualifiers.items() if value}
