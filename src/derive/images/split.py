# SPDX-License-Identifier: Apache-2.0
"""How a tree of many packages is spread over layers: where a package goes, and which of its files are native.

Core: no IO.

Where a package goes depends on its own name alone, so that packages come and go without moving others.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from derive.canonical import escape, sha256
from derive.trees.listing import Directory, Entry, Listing
from derive.trees.partition import leaves

BASE = "out"
"""The output with what no single package owns."""

MOST = 100
"""Layers of an image."""


def own_output(package: str) -> str:
    """Return the output that holds one package."""
    return f"own {package}"


def shared_output(number: int) -> str:
    """Return the output that holds the packages of one shared layer; numbers from 1."""
    return f"shared {number:02d}"


def shared_place(package: str, shared: int) -> int:
    """Return which of the shared layers a package goes to: 1 to ``shared``, by the SHA-256 of its name."""
    return int(sha256(package.encode()).hex, 16) % shared + 1


def select(listing: Listing, patterns: Sequence[str], *, native: bool) -> Listing:
    """Return of a tree what is native, or what is not: the leaves whose whole path fits a pattern.

    ``*`` spans slashes. A link fits by its own path; an empty folder never does.
    """
    return Listing.of([(path, one) for path, one in leaves(listing) if is_native(path, one, patterns) is native])


def is_native(path: bytes, entry: Entry, patterns: Sequence[str]) -> bool:
    """Say whether a leaf fits a pattern."""
    return not isinstance(entry, Directory) and any(fnmatchcase(escape(path), pattern) for pattern in patterns)
