# SPDX-License-Identifier: Apache-2.0
"""However a tree's contents are cut and packed to travel, the tree that arrives is the one that left."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.cache.packing import LARGE, LARGEST_PACK, groups_of, pack, placed
from derive.canonical import Digest, sha256
from derive.trees.listing import File, Listing, Location
from derive.trees.nar import nar_digest

NAMES = st.binary(min_size=1, max_size=6).filter(
    lambda name: b"/" not in name and b"\0" not in name and name.strip(b".")
)
CONTENTS = st.one_of(
    st.binary(max_size=300),
    st.integers(0, 255).map(lambda byte: bytes([byte]) * 5000),
    st.integers(0, 3).map(lambda byte: bytes([byte]) * (LARGE + byte)),
)


def stored(data: bytes, *, deflate: bool) -> tuple[File, bytes]:
    """Return a file as a store might hold it, and the bytes that it holds."""
    held = zlib.compress(data, 1, -15) if deflate else data
    at = Location(sha256(held), 0, len(held), "deflate" if deflate else "raw")
    return File(executable=False, size=len(data), sha256=sha256(data), at=at), held


def travelled(listing: Listing, blobs: Mapping[Digest, bytes]) -> tuple[Listing, dict[Digest, bytes]]:
    """Return a tree as it arrives, and the blobs that its contents lie in there."""
    places: dict[Digest, Location] = {}
    arrived: dict[Digest, bytes] = {}
    for group in groups_of(listing):
        parts = [(file, blobs[file.at.blob]) for file in group.files if file.at is not None]
        if group.is_large:
            (file, data) = parts[0]
            assert file.at is not None
            arrived[sha256(data)] = data
            places[file.sha256] = Location(sha256(data), 0, len(data), file.at.method)
            continue
        data, where = pack(parts)
        arrived[sha256(data)] = data
        for file, (offset, size, method) in zip(group.files, where, strict=True):
            places[file.sha256] = Location(sha256(data), offset, size, "deflate" if method == "deflate" else "raw")
    return placed(listing, places), arrived


def read(file: File, blobs: Mapping[Digest, bytes]) -> bytes:
    assert file.at is not None
    data = blobs[file.at.blob][file.at.offset : file.at.offset + file.at.size]
    return zlib.decompress(data, -15) if file.at.method == "deflate" else data


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(NAMES, st.tuples(CONTENTS, st.booleans()), max_size=6))
def test_a_tree_that_travelled_is_the_tree_that_left(files: dict[bytes, tuple[bytes, bool]]) -> None:
    held = {name: stored(data, deflate=deflate) for name, (data, deflate) in files.items()}
    blobs = {file.at.blob: data for file, data in held.values() if file.at is not None}
    listing = Listing.of({name: file for name, (file, _) in held.items()})
    arrived, there = travelled(listing, blobs)
    assert arrived == listing
    contents = {file.sha256: read(file, there) for _, file in arrived.files()}
    assert all(sha256(data) == digest for digest, data in contents.items())
    assert nar_digest(arrived, lambda _, file: [read(file, there)]) == nar_digest(
        listing, lambda _, file: [read(file, blobs)]
    )
    assert all(len(data) <= LARGEST_PACK or len(data) >= LARGE for data in there.values())


def test_two_trees_that_differ_in_one_file_share_all_packs_but_one() -> None:
    files = {b"%04d" % number: stored(b"contents of %d " % number * 40, deflate=False) for number in range(2000)}
    blobs = {file.at.blob: data for file, data in files.values() if file.at is not None}
    edited = {**files, b"0777": stored(b"edited " * 90, deflate=False)}
    blobs |= {file.at.blob: data for file, data in edited.values() if file.at is not None}
    _, before = travelled(Listing.of({name: file for name, (file, _) in files.items()}), blobs)
    _, after = travelled(Listing.of({name: file for name, (file, _) in edited.items()}), blobs)
    assert len(before) > 20
    assert len(after.keys() - before.keys()) <= 2
