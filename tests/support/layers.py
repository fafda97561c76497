# SPDX-License-Identifier: Apache-2.0
"""Small trees and stores for tests of layers and images."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import TypeAlias

from derive.canonical import Digest, sha256
from derive.images.encoding import Encoding
from derive.images.layer import LayerDescriptor, write_layer
from derive.images.modes import ModeTable
from derive.images.oci import ImageConfig, image_documents
from derive.images.tar import stream
from derive.store.memory import MemoryStore
from derive.store.protocol import Store
from derive.trees.listing import DIRECTORY, Directory, File, Listing, Location, Symlink
from derive.trees.pack import NewFile, add_members

Given: TypeAlias = "bytes | NewFile | Symlink | Directory"

FIELD: dict[bytes, Given] = {
    b"bin": Symlink(b"usr/bin"),
    b"usr/bin/tool": NewFile(executable=True, chunks=[b"#!/bin/sh\necho tool\n"]),
    b"usr/share/doc/readme": b"read me\n",
    b"usr/share/empty": b"",
    b"tmp": DIRECTORY,
    b"usr/share/noise": b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(1000)),
}
"""A tree with one of everything."""


def tree(store: Store, entries: Mapping[bytes, Given]) -> Listing:
    """Put a small tree's contents into the store; bytes stand for a file that is not executable."""
    return add_members(
        store,
        (
            (path, NewFile(executable=False, chunks=[given]) if isinstance(given, bytes) else given)
            for path, given in entries.items()
        ),
    )


def blob(store: Store, digest: Digest) -> bytes:
    """Return a blob whole."""
    return b"".join(store.read_blob(digest))


def put(store: Store, data: bytes) -> Digest:
    """Add a blob."""
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()


def archive(store: Store, listing: Listing, modes: ModeTable | None = None) -> bytes:
    """Return the tar of a listing."""
    return b"".join(stream(listing.items(), modes or ModeTable(), store.read))


def read_back(data: bytes) -> list[tarfile.TarInfo]:
    """Read a tar with the standard library."""
    with tarfile.open(fileobj=BytesIO(data), mode="r:", errors="surrogateescape", encoding="utf-8") as tar:
        return tar.getmembers()


def raw_name(member: tarfile.TarInfo) -> bytes:
    """Return a member's name as bytes."""
    return member.name.encode("utf-8", "surrogateescape")


def image(store: Store, *listings: Listing, config: ImageConfig | None = None, platform: str = "linux/amd64") -> Digest:
    """Write a whole image into the store and return its digest."""
    layers: list[LayerDescriptor] = [write_layer(store, listing, ModeTable(), Encoding()) for listing in listings]
    documents = image_documents(
        config or ImageConfig(command=("/usr/bin/tool",)), layers, platform=platform, derivation=sha256(b"a derivation")
    )
    put(store, documents.config)
    return put(store, documents.manifest)


class Zeros(MemoryStore):
    """A store in which every located file is zeros that nothing holds in memory, and blobs are dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def read(self, file: File) -> Iterator[bytes]:
        chunk = bytes(1 << 20)
        whole, rest = divmod(file.size, len(chunk))
        for _ in range(whole):
            yield chunk
        if rest:
            yield chunk[:rest]


def zeros(size: int) -> File:
    """Return a listed file of zeros, for a :class:`Zeros` store."""
    hasher = hashlib.sha256()
    chunk = bytes(1 << 20)
    for _ in range(size // len(chunk)):
        hasher.update(chunk)
    hasher.update(chunk[: size % len(chunk)])
    digest = Digest(hasher.hexdigest())
    return File(executable=False, size=size, sha256=digest, at=Location(digest, 0, size))
