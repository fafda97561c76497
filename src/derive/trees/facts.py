# SPDX-License-Identifier: Apache-2.0
"""What a tree is, as one digest that needs no contents: they stand in it by their hash.

Core: no IO. Contents come from a function that the caller gives.

It names trees that come and go between steps (docs/formats/tree-digest.md), and is the key under which what was made of
a tree is remembered. The NAR's digest, for which all contents are read, is what others can compare.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import assert_never

from derive.canonical import Digest, escape
from derive.trees.listing import Directory, Entry, File, Listing, Symlink
from derive.trees.nar import nar_digest


def facts_of(listing: Listing) -> Digest:
    """Return the digest of a tree's facts; where contents lie is none."""
    hasher = hashlib.sha256(b"tree-facts/1\n")
    for path, entry in listing.items():
        hasher.update(f"{_fact(entry)}\0{escape(path)}\n".encode())
    return Digest(hasher.hexdigest())


def digest_again(listing: Listing, tree: Digest, read: Callable[[File], Iterable[bytes]]) -> Digest:
    """Return a listing's digest in the manner in which ``tree`` is one, with all contents read; ``read`` checks them.

    Raises:
        what ``read`` raises, ValueError as :func:`derive.trees.nar.nar_digest`.
    """
    if facts_of(listing) != tree:
        return nar_digest(listing, lambda _, file: read(file))
    for _, file in listing.files():
        for _ in read(file):
            pass
    return tree


def _fact(entry: Entry) -> str:
    match entry:
        case Directory():
            return "folder"
        case Symlink(target):
            return f"link {escape(target)}"
        case File(executable, size, sha256):
            return f"{'program' if executable else 'file'} {size} {sha256.hex}"
        case _:
            assert_never(entry)
