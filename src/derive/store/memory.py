# SPDX-License-Identifier: Apache-2.0
"""A store in memory: the same contract as the one on disk, for tests and for planning.

Core: no IO.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import PurePath
from types import TracebackType
from typing import Self

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, Missing, expected_got
from derive.store.protocol import CHUNK, located
from derive.trees.facts import facts_of
from derive.trees.listing import File, Listing
from derive.trees.nar import nar_digest


class MemoryStore:
    """Blobs and listings in two dicts. Not safe for several threads."""

    def __init__(self) -> None:
        self._blobs: dict[Digest, bytes] = {}
        self._trees: dict[Digest, Listing] = {}

    def has_blob(self, digest: Digest) -> bool:
        """Say whether the blob is present."""
        return digest in self._blobs

    def blob_size(self, digest: Digest) -> int:
        """Return the blob's size in bytes."""
        return len(self._blob(digest))

    def blob_path(self, digest: Digest) -> PurePath:
        """Refuse: blobs in memory are no files."""
        raise Missing(f"blob {digest.short} is no file: this store is in memory")

    def read_blob(self, digest: Digest, offset: int = 0, size: int | None = None) -> Iterator[bytes]:
        """Yield a slice of a blob."""
        data = self._blob(digest)
        end = len(data) if size is None else offset + size
        if end > len(data):
            raise Corrupt(f"blob {digest.short} ends early", detail=expected_got(f"{end} bytes", f"{len(data)} bytes"))
        for start in range(offset, end, CHUNK):
            yield data[start : min(start + CHUNK, end)]

    def blob_writer(self) -> MemoryWriter:
        """Begin a new blob."""
        return MemoryWriter(self._blobs)

    def has_tree(self, digest: Digest) -> bool:
        """Say whether the tree's listing and the blobs under it are present."""
        listing = self._trees.get(digest)
        return listing is not None and all(at.blob in self._blobs for _, _, at in located(listing))

    def listing(self, digest: Digest) -> Listing:
        """Return a tree's listing."""
        try:
            return self._trees[digest]
        except KeyError:
            raise Missing(f"tree {digest.short} is not in the store") from None

    def add_listing(self, listing: Listing, *, by_facts: bool = False) -> Digest:
        """Hash and keep a tree whose contents are present."""
        digest = facts_of(listing) if by_facts else nar_digest(listing, lambda _, file: self.read(file))
        self._trees.setdefault(digest, listing)
        return digest

    def read(self, file: File) -> Iterator[bytes]:
        """Yield a file's contents."""
        if file.at is None:
            raise Missing("the file has no location")
        data = b"".join(self.read_blob(file.at.blob, file.at.offset, file.at.size))
        if file.at.method == "deflate":
            inflater = zlib.decompressobj(wbits=-15)
            try:
                data = inflater.decompress(data)
            except zlib.error as error:
                raise Corrupt(f"a compressed file in blob {file.at.blob.short} cannot be read: {error}") from error
            if not inflater.eof or inflater.unused_data:
                raise Corrupt(f"a compressed file in blob {file.at.blob.short} does not end where it should")
        if len(data) != file.size:
            raise Corrupt("a file's contents have another size", detail=expected_got(file.size, len(data)))
        if sha256(data) != file.sha256:
            raise Corrupt("a file's contents are not those listed", detail=expected_got(file.sha256, sha256(data)))
        for start in range(0, len(data), CHUNK):
            yield data[start : start + CHUNK]

    def _blob(self, digest: Digest) -> bytes:
        try:
            return self._blobs[digest]
        except KeyError:
            raise Missing(f"blob {digest.short} is not in the store") from None


class MemoryWriter:
    """Collects bytes, and adds them to the store on commit."""

    def __init__(self, blobs: dict[Digest, bytes]) -> None:
        self._blobs = blobs
        self._data = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes."""
        self._data += data

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return len(self._data)

    def commit(self, expected: Digest | None = None) -> Digest:
        """Add the blob."""
        digest = sha256(self._data)
        if expected is not None and digest != expected:
            raise Corrupt("the bytes are not what their name says", detail=expected_got(expected, digest))
        self._blobs[digest] = bytes(self._data)
        return digest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._data.clear()
