# SPDX-License-Identifier: Apache-2.0
"""A listing that comes from elsewhere: taken only when a store would have written it, byte for byte.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.canonical import Digest
from derive.errors import Corrupt
from derive.store.listings import dump_listing, load_listing
from derive.trees.listing import File, Listing, ListingError
from derive.trust.dsse import shown


def read_listing(data: bytes, tree: Digest, blobs: Mapping[Digest, int]) -> Listing:
    """Read a listing whose contents lie in blobs of these sizes; the tree digest is checked where they are read.

    Raises:
        Corrupt: naming the tree, when it is no listing, or a file lies outside its blob.
    """
    try:
        listing = Listing.of(load_listing(data, tree.short))
        written = dump_listing(listing)
    except Corrupt as error:
        error.detail = tuple(line.encode("unicode_escape").decode() for line in error.detail)
        error.hint = None  # it speaks of a store's own listings
        raise
    except (ListingError, RecursionError, ValueError) as error:
        raise Corrupt(f"the listing of tree {tree.short} is no listing: {shown(error)}") from error
    for path, file in listing.files():
        if not _is_sound(file, blobs):
            raise Corrupt(f"the listing of tree {tree.short} has a file outside its blob: {path!r}")
    if written != data:
        raise Corrupt(f"the listing of tree {tree.short} is not written as a listing is")
    return listing


def _is_sound(file: File, blobs: Mapping[Digest, int]) -> bool:
    at = file.at
    if at is None or at.method not in ("raw", "deflate"):
        return False
    if any(type(number) is not int or number < 0 for number in (file.size, at.offset, at.size)):
        return False  # 1.0 is written as it was read
    return at.offset + at.size <= blobs.get(at.blob, -1) and (at.method == "deflate" or at.size == file.size)
