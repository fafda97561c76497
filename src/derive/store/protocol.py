# SPDX-License-Identifier: Apache-2.0
"""What every store can do: has, read, add. Everything else is a free function over these.

Core: no IO. The implementations are in memory.py and local.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from types import TracebackType
from typing import Protocol, Self

from derive.canonical import Digest
from derive.trees.listing import File, Listing, Location

CHUNK = 1 << 20
"""Bytes in the largest piece that any reader yields."""


class BlobWriter(Protocol):
    """A blob being written: nothing is visible before :meth:`commit`, and leaving without it drops the bytes."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes."""

    @property
    def size(self) -> int:
        """Bytes written so far."""

    def commit(self, expected: Digest | None = None) -> Digest:
        """Make the blob's bytes durable and visible, and return its digest.

        Raises:
            Corrupt: when the bytes are not the expected ones; nothing is kept.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Store(Protocol):
    """Content-addressed blobs and trees. Adding what is there already is cheap and changes nothing."""

    def has_blob(self, digest: Digest) -> bool:
        """Say whether the blob is present; its bytes are not re-hashed."""

    def blob_size(self, digest: Digest) -> int:
        """Return the blob's size in bytes; raises Missing when absent."""

    def blob_path(self, digest: Digest) -> PurePath:
        """Return where the blob lies as a file, never to be written to; raises Missing when absent."""

    def read_blob(self, digest: Digest, offset: int = 0, size: int | None = None) -> Iterator[bytes]:
        """Yield a slice of a blob in pieces of at most ``CHUNK`` bytes; raises Missing when absent."""

    def blob_writer(self) -> BlobWriter:
        """Begin a new blob."""

    def has_tree(self, digest: Digest) -> bool:
        """Say whether the tree's listing and every blob that it needs are present."""

    def listing(self, digest: Digest) -> Listing:
        """Return a tree's listing, each file with its location; raises Missing when absent."""

    def add_listing(self, listing: Listing, *, by_facts: bool = False) -> Digest:
        """Hash a tree whose files all lie in present blobs, keep its listing, and return the tree digest.

        ``by_facts`` takes the digest of what the listing says, for which no contents are read.

        Raises:
            Missing: when a file has no location, or its blob is absent.
        """

    def read(self, file: File) -> Iterator[bytes]:
        """Yield a listed file's contents in pieces of at most ``CHUNK`` bytes.

        Raises:
            Missing: when the blob is absent, or the file has no location.
            Corrupt: when the bytes do not have the stated size.
        """


def read_all(store: Store, file: File) -> bytes:
    """Return a small file's contents whole."""
    return b"".join(store.read(file))


def located(listing: Listing) -> Iterator[tuple[bytes, File, Location]]:
    """Yield each file with its location; raises ValueError for one that has none."""
    for path, file in listing.files():
        if file.at is None:
            raise ValueError(f"{path!r} has no location")
        yield path, file, file.at
