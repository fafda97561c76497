# SPDX-License-Identifier: Apache-2.0
"""The NAR serialisation of a tree, whose SHA-256 is the tree digest that Nix's own tools print.

Core: no IO. Contents come from a function that the caller gives.

The grammar is on docs/formats/tree-digest.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import assert_never

from derive.canonical import Digest
from derive.trees.listing import Directory, Entry, File, Listing, Symlink

ContentReader = Callable[[bytes, File], Iterable[bytes]]
"""Yields the contents of the file at a path; together exactly ``file.size`` bytes."""

_FLUSH = 1 << 16


def _string(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text + b"\0" * (-len(text) % 8)


_MAGIC = _string(b"nix-archive-1")
MAGIC_BYTES = len(_MAGIC)
"""What comes before everything that :func:`frames` yields."""
_OPEN = _string(b"(")
_CLOSE = _string(b")")
_REGULAR = _OPEN + _string(b"type") + _string(b"regular")
_EXECUTABLE = _string(b"executable") + _string(b"")
_CONTENTS = _string(b"contents")
_SYMLINK = _OPEN + _string(b"type") + _string(b"symlink") + _string(b"target")
_DIRECTORY = _OPEN + _string(b"type") + _string(b"directory")
_ENTRY = _string(b"entry") + _OPEN + _string(b"name")
_NODE = _string(b"node")


def serialise(listing: Listing, read: ContentReader) -> Iterator[bytes]:
    """Yield the NAR of a tree in pieces; a file's contents pass through as the reader gives them.

    Raises:
        ValueError: when a reader gives more or fewer bytes than the listing states.
    """
    for piece in _pieces(listing, read):
        yield bytes(piece)


def _pieces(listing: Listing, read: ContentReader) -> Iterator[bytes | bytearray]:
    """Yield the NAR in pieces; each may be overwritten when the next one is asked for."""
    pending = bytearray(_MAGIC)
    for head, path, file in frames(listing):
        pending += head
        if file is None:
            continue
        seen = 0
        for chunk in read(path, file):
            seen += len(chunk)
            if len(chunk) < _FLUSH:
                pending += chunk
                if len(pending) < _FLUSH:
                    continue
                yield pending
            else:
                yield pending
                yield chunk
            pending.clear()
        if seen != file.size:
            raise ValueError(f"{path!r}: {seen} bytes read, {file.size} listed")
    yield pending


def frames(listing: Listing) -> Iterator[tuple[bytes, bytes, File | None]]:
    """Yield the bytes between contents: (framing, path, file whose contents follow the framing, or None)."""
    depth: list[bytes] = []  # the folders now open, as path prefixes
    padding = b""
    for path, entry in listing.items():
        head = padding
        padding = b""
        if path:
            parent, _, name = path.rpartition(b"/")
            while depth and depth[-1] != parent:
                depth.pop()
                head += _CLOSE + (_CLOSE if depth else b"")
            head += _ENTRY + _string(name) + _NODE
        closing = _CLOSE + (_CLOSE if path else b"")
        match entry:
            case Directory():
                depth.append(path)
                yield head + _DIRECTORY, path, None
            case Symlink(target):
                yield head + _SYMLINK + _string(target) + closing, path, None
            case File(executable, size):
                head += _REGULAR + (_EXECUTABLE if executable else b"") + _CONTENTS + size.to_bytes(8, "little")
                padding = b"\0" * (-size % 8) + closing
                yield head, path, entry
            case _:
                assert_never(entry)
    while depth:
        depth.pop()
        padding += _CLOSE + (_CLOSE if depth else b"")
    yield padding, b"", None


def nar_digest(listing: Listing, read: ContentReader) -> Digest:
    """Return the tree digest: the SHA-256 of the NAR."""
    hasher = hashlib.sha256()
    for piece in _pieces(listing, read):
        hasher.update(piece)
    return Digest(hasher.hexdigest())


def single(entry: Entry) -> Listing:
    """Return the tree whose root is this one entry (a one-file output)."""
    return Listing.of({b"": entry})
