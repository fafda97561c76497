# SPDX-License-Identifier: Apache-2.0
"""Licences: each package states one, or has a copyright file that people can read.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.trees.listing import File
from derive.verify.findings import Finding, Owner, Rule
from derive.verify.image import ImageTree, shown

UNKNOWN = "unknown"


def licences(image: ImageTree) -> Mapping[Owner, str]:
    """Return the licence of each package, as it states it."""
    found = {one.owner: one.facts.licence for one in image.wheels}
    for package in image.packages:
        found[package.owner] = _copyright(image, package.facts.name) or UNKNOWN
    return dict(sorted(found.items(), key=lambda one: str(one[0])))


def licence_findings(image: ImageTree) -> Iterator[Finding]:
    """Yield packages that do not say under which licence they are."""
    places = {one.owner: one.info for one in image.wheels}
    for owner, licence in licences(image).items():
        if licence == UNKNOWN:
            place = places.get(owner, f"usr/share/doc/{owner.name}".encode())
            yield Finding(
                rule=Rule.LICENCE,
                path=shown(place),
                owner=owner,
                what="states no licence",
                hint="read its licence files, and say in an exception which it is",
            )


def _copyright(image: ImageTree, package: str) -> str | None:
    path = image.real(f"usr/share/doc/{package}/copyright".encode())
    entry = image.listing.get(path) if path is not None else None
    return image.of(entry).licence if isinstance(entry, File) else None
