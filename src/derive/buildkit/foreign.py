# SPDX-License-Identifier: Apache-2.0
"""What layers of others hold that no builder brings into an image as it is, found before one is asked.

Core: no IO of its own; it reads through the store that it is given.

Each layer of an image is a context of its own, unpacked alone and copied: what a layer says of those below it is lost,
what it leaves out is made up, and every time becomes that of all images.
"""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Container, Iterable, Iterator

from derive.canonical import EPOCH, Digest, escape
from derive.errors import Problem
from derive.images.shown import layer_members
from derive.store.protocol import Store

_XATTR = "SCHILY.xattr."
_CAPABILITY = f"{_XATTR}security.capability"
_HINT = "no Dockerfile makes it of that layer: write the image itself, derive image --output, which docker load reads"


def foreign_problems(store: Store, layers: Iterable[Digest], own: Container[Digest], where: str) -> Iterator[Problem]:
    """Yield the first entry of each layer that a builder would alter; ``own`` are the layers that derive wrote.

    ``layers`` are blobs of an image's layers, the bottom first; ``where`` is what errors point at.
    """
    links: set[bytes] = set()
    for layer in layers:
        if layer in own:
            continue
        found = _first(layer_members(store, layer, where=f"{where}: layer {layer.short}"), links)
        if found is not None:
            path, why = found
            message = f"its layer {layer.short} has /{escape(path)}, {why}"
            yield Problem(where=where, message=message, hint=_HINT)


def _first(members: Iterator[tuple[bytes, tarfile.TarInfo]], links: set[bytes]) -> tuple[bytes, str] | None:
    folders = {b""}
    for path, member in members:
        if not path:
            continue
        above = posixpath.dirname(path)
        if posixpath.basename(path).startswith(b".wh."):
            return path, "which takes something away from the layers below"
        if _ancestors(path) & links:
            return path, "whose folder is a link"
        if above not in folders:
            return path, "whose folder the layer does not hold"
        if member.isdir():
            folders.add(path)
        if member.issym():
            links.add(path)
        if member.mtime != EPOCH:
            return path, f"of another time than that of all images: {int(member.mtime)} seconds"
        odd = sorted(key for key in member.pax_headers if key.startswith(_XATTR) and key != _CAPABILITY)
        if odd:
            return path, f"with the attribute {odd[0].removeprefix(_XATTR)}"
    return None


def _ancestors(path: bytes) -> set[bytes]:
    found = set()
    while path := posixpath.dirname(path):
        found.add(path)
    return found
