# SPDX-License-Identifier: Apache-2.0
"""Differences of files' contents, line by line, as long as they are texts of a size that a person reads.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.store.local import LocalStore
from derive.trees.listing import File, Listing
from derive.why.render import Line, line_diff

_LARGEST = 1 << 20
_MOST_LINES = 5000
_LINES = 200
FILES = 50
"""Contents of so many files at most are compared."""


def text_diff(store: LocalStore, trees: tuple[Listing, Listing], path: bytes) -> Iterator[Line] | str:
    """Return the lines that differ, or why they are not shown; raises Corrupt or Missing as the store does."""
    entries = [tree.get(path) for tree in trees]
    files = [entry if isinstance(entry, File) else None for entry in entries]
    if any(file is not None and file.size > _LARGEST for file in files):
        return f"larger than {_LARGEST >> 20} MiB"
    old, new = (None if file is None else b"".join(store.read(file)) for file in files)
    if any(data is not None and b"\0" in data for data in (old, new)):
        return "no text"
    if any(data is not None and data.count(b"\n") > _MOST_LINES for data in (old, new)):
        return f"more than {_MOST_LINES} lines"
    return line_diff(old, new, context=3, limit=_LINES)
