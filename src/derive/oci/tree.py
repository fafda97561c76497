# SPDX-License-Identifier: Apache-2.0
"""An image of the store as one tree: its layers unpacked, checked against the config, and laid upon each other.

Core: no IO of its own; it reads and writes through the store that it is given.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from derive.archives import DEFAULT_LIMITS, Limits, Note, Unpacked
from derive.archives.names import broken, check_links, refused
from derive.archives.stream import Bytes, decompressed
from derive.archives.tar import read_tar
from derive.canonical import Digest
from derive.errors import Corrupt, expected_got
from derive.images.oci import Descriptor
from derive.oci.documents import LONGEST_CONFIG, LONGEST_MANIFEST, Config, Manifest, parse_config, parse_manifest
from derive.oci.layers import Stack
from derive.store.protocol import Store
from derive.trees.listing import Listing, Symlink
from derive.trees.pack import add_members

_LAYER_TYPE = re.compile(
    r"application/vnd\.(oci\.image\.layer\.(nondistributable\.)?v1\.tar(\+gzip|\+zstd)?"
    r"|docker\.image\.rootfs\.(foreign\.)?diff\.tar(\.gzip|\.zstd)?)"
)


def oci_tree(store: Store, manifest: Digest, *, name: str = "", limits: Limits = DEFAULT_LIMITS) -> Unpacked:
    """Unpack an image whose manifest, config and layers are in the store; ``name`` is what errors call it.

    Owners, times and special modes are no facts of a tree; the notes say what was dropped. ``limits`` hold for each
    layer.

    Raises:
        InputErrors: for members that no layer may hold, by name: device nodes among them.
        Corrupt: when a document or a layer is damaged, or a layer is not the one that the config names.
        Missing: when a blob is not in the store.
    """
    name = name or f"image {manifest.short}"
    found, config = image_documents(store, manifest, name=name)
    stack = Stack(limits)
    for number, (layer, diff_id) in enumerate(zip(found.layers, config.diff_ids, strict=True)):
        _lay(store, stack, layer, diff_id, name=f"{name}: layer {number} ({layer.digest.short})", limits=limits)
    entries = stack.entries()
    links = {path: entry.target for path, entry in entries.items() if isinstance(entry, Symlink)}
    check_links(name, entries, links, "root")
    return Unpacked(listing=Listing.of(entries), notes=stack.notes())


def image_documents(store: Store, manifest: Digest, *, name: str) -> tuple[Manifest, Config]:
    """Read an image's manifest and config from the store.

    Raises:
        Corrupt: when one cannot be read, or they do not speak of the same number of layers.
        Missing: when one is not there.
    """
    _, found = parse_manifest(_small(store, manifest, LONGEST_MANIFEST, name), where=f"{name}: manifest")
    if not isinstance(found, Manifest):
        raise Corrupt("an index of several images, where one image is wanted", where=f"{name}: manifest")
    config = parse_config(_small(store, found.config.digest, LONGEST_CONFIG, name), where=f"{name}: config")
    if len(config.diff_ids) != len(found.layers):
        detail = expected_got(f"{len(found.layers)} layers", f"{len(config.diff_ids)} diff ids")
        raise Corrupt("the config is not this manifest's", where=f"{name}: config", detail=detail)
    return found, config


def _small(store: Store, blob: Digest, longest: int, name: str) -> bytes:
    if store.blob_size(blob) > longest:
        raise Corrupt(f"a document of more than {longest} bytes", where=f"{name}: blob {blob.short}")
    return b"".join(store.read_blob(blob))


def _lay(store: Store, stack: Stack, layer: Descriptor, diff_id: Digest, *, name: str, limits: Limits) -> None:
    if not _LAYER_TYPE.fullmatch(layer.media_type):
        raise refused(name, None, f"a layer that is no tar archive: {layer.media_type}")
    size = store.blob_size(layer.digest)
    if size != layer.size:
        raise broken(name, "a layer of another size than its manifest states", detail=expected_got(layer.size, size))
    hasher = hashlib.sha256()

    def plain() -> Iterator[bytes]:
        for piece in decompressed(name, store.read_blob(layer.digest), limits.allowed(size)):
            hasher.update(piece)
            yield piece

    notes: list[Note] = []
    members = read_tar(name, Bytes(name, plain()), notes, limits=limits)
    stack.settle(add_members(store, stack.lay(name, members, notes)))
    if hasher.hexdigest() != diff_id.hex:
        detail = expected_got(diff_id, Digest(hasher.hexdigest()))
        raise broken(name, "a layer that is not the one that the config names", detail=detail)
