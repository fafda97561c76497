# SPDX-License-Identifier: Apache-2.0
"""Trees of the store as images by digest, which a build takes as contexts: sent once to a worker that keeps them.

Edge: a folder, the store.

A tree becomes one layer, a blob of the store like any other: nothing names it, so that a collection takes it. The
folder that clients of BuildKit read is an OCI layout whose blobs are the store's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import Digest, Json, digest_document, encode, escape
from derive.errors import BuildFailed
from derive.images.modes import Attributes
from derive.images.tar import BLOCK, END, header
from derive.trees.listing import DIRECTORY, Directory, Entry, File, Listing

if TYPE_CHECKING:
    import threading

    from derive.build.context import Source
    from derive.store.local import LocalStore

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
OWNER = 1000
"""Whose the files are: the sandbox's user, as they are where the store belongs to whoever runs the build."""

_VERSION = "context-layer/1"
_WHITEOUT = b".wh."


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLayer:
    """A layer in the store: its blob, the blob's bytes, and the digest of the tar that is in it."""

    blob: Digest
    size: int
    diff_id: Digest


class Contexts:
    """Makes images of trees, and the layout in ``folder`` (which is made, on the store's disk) that holds them."""

    def __init__(self, store: LocalStore, folder: Path) -> None:
        self._store = store
        self._folder = folder
        folder.mkdir()
        (folder / "blobs").symlink_to(store.root.absolute() / "blobs")
        (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        (folder / "index.json").write_text('{"manifests":[],"schemaVersion":2}')

    def layer(self, source: Source, *, below: bytes = b"", cancel: threading.Event | None = None) -> ContextLayer:
        """Return the layer of a tree, written on first use: mode 0444 or 0555, the sandbox's user, one time.

        The tree lies ``below`` a path, if only so that its top is as it is, too.

        Raises:
            BuildFailed: when the tree holds a name that means something else in a layer.
            Interrupted: when ``cancel`` is set while another process writes the same layer.
        """
        if isinstance(source, Listing):
            return self._written(source.at(below), {})
        key = digest_document({"derive": _VERSION, "tree": source.hex, "below": escape(below)})
        known = self._known(key)
        if known is not None:
            return known
        with self._store.locked(f"context-{key.hex}", cancel):
            known = self._known(key)
            if known is None:
                known = self._written(self._store.listing(source).at(below), {})
                self._store.database.set_memo(key, f"{known.blob.hex} {known.diff_id.hex}")
        return known

    def folders(self, modes: Mapping[bytes, int]) -> ContextLayer:
        """Return the layer of folders alone, the top with them, each with its mode."""
        return self._written(Listing.of(dict.fromkeys(modes, DIRECTORY)), modes)

    def image(self, layers: Sequence[ContextLayer], platform: str, settings: Mapping[str, Json]) -> Digest:
        """Return the digest of the manifest of an image of layers; ``settings`` are what its programs run with."""
        system, _, architecture = platform.partition("/")
        config = encode(
            {
                "architecture": architecture,
                "config": settings,
                "os": system,
                "rootfs": {"diff_ids": [str(one.diff_id) for one in layers], "type": "layers"},
            }
        )
        manifest = encode(
            {
                "config": {"digest": str(self._put(config)), "mediaType": CONFIG, "size": len(config)},
                "layers": [{"digest": str(one.blob), "mediaType": LAYER, "size": one.size} for one in layers],
                "mediaType": MANIFEST,
                "schemaVersion": 2,
            }
        )
        return self._put(manifest)

    def place(self, image: Digest) -> str:
        """Return what a build is told of an image that is to be a context."""
        return f"oci-layout://{self._folder.absolute()}@{image}"

    def _known(self, key: Digest) -> ContextLayer | None:
        text = self._store.database.memo(key)
        if text is None:
            return None
        blob, diff_id = map(Digest, text.split())
        if not self._store.has_blob(blob):
            return None
        return ContextLayer(blob=blob, size=self._store.blob_size(blob), diff_id=diff_id)

    def _written(self, entries: Mapping[bytes, Entry], modes: Mapping[bytes, int]) -> ContextLayer:
        from zlib_ng import zlib_ng

        packer = zlib_ng.compressobj(level=1, wbits=31)  # the quickest: most of it is for a worker nearby
        plain = hashlib.sha256()
        with self._store.blob_writer() as writer:
            for piece in self._tar(entries, modes):
                plain.update(piece)
                writer.write(packer.compress(piece))
            writer.write(packer.flush())
            size = writer.size
            blob = writer.commit()
        return ContextLayer(blob=blob, size=size, diff_id=Digest(plain.hexdigest()))

    def _tar(self, entries: Mapping[bytes, Entry], modes: Mapping[bytes, int]) -> Iterator[bytes]:
        for path, entry in entries.items():
            if path.rpartition(b"/")[2].startswith(_WHITEOUT):
                raise BuildFailed(
                    "an input holds a name that takes something away in a layer, and cannot be sent to a builder",
                    detail=(f"name  {escape(path)}",),
                    hint="leave --executor out: this machine's sandbox takes every name",
                )
            if not path:
                continue  # what a layer says of its top is not heeded
            yield header(path, entry, Attributes(modes.get(path, _mode(entry)), OWNER, OWNER))
            if isinstance(entry, File):
                yield from self._store.read(entry)
                yield b"\0" * (-entry.size % BLOCK)
        yield END

    def _put(self, data: bytes) -> Digest:
        with self._store.blob_writer() as writer:
            writer.write(data)
            return writer.commit()


def _mode(entry: Entry) -> int:
    if isinstance(entry, File):
        return 0o555 if entry.executable else 0o444
    return 0o555 if isinstance(entry, Directory) else 0o777
