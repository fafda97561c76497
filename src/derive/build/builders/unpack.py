# SPDX-License-Identifier: Apache-2.0
"""``unpack``: one archive to a tree. Page: docs/builders/unpack.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.archives.identity import Expected
from derive.archives.notes import summary
from derive.archives.unpack import Unpacked, unpack_deb, unpack_sdist, unpack_tar, unpack_wheel, unpack_zip
from derive.build.context import Context
from derive.canonical import Digest, Json
from derive.derivations.model import Output, ResolvedDerivation
from derive.oci.tree import oci_tree
from derive.store.protocol import Store
from derive.trees.listing import File, Listing, Location


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Unpack; what the tree does not keep of the archive goes into the log."""
    unpacked = _unpack(context.store, request, context.labels[0])
    for line in summary(unpacked.notes):
        context.log(line)
    return {"out": context.tree(request, unpacked.listing)}


def _unpack(store: Store, request: ResolvedDerivation, name: str) -> Unpacked:
    arguments = request.arguments
    if arguments["kind"] == "oci":
        return oci_tree(store, request.file("manifest"), name=name)
    blob = request.file("archive")
    strip = arguments["strip"]
    assert isinstance(strip, int)
    expected = _expected(arguments["expected"])
    match arguments["kind"]:
        case "deb":
            return unpack_deb(store, blob, name=name, expected=expected)
        case "wheel":
            return unpack_wheel(store, blob, name=name, expected=expected)
        case "sdist":
            return unpack_sdist(store, blob, name=name, expected=expected)
        case "zip":
            return unpack_zip(store, blob, name=name, strip=strip)
        case "tar":
            return unpack_tar(store, blob, name=name, strip=strip)
        case "file":
            return _one_file(store, blob, str(arguments["path"]))
        case other:
            raise ValueError(f"no such kind of archive: {other!r}")


def _one_file(store: Store, blob: Digest, path: str) -> Unpacked:
    size = store.blob_size(blob)
    file = File(executable=False, size=size, sha256=blob, at=Location(blob, 0, size, "raw"))
    return Unpacked(listing=Listing.of({path.encode(): file}), notes=())


def _expected(document: Json) -> Expected | None:
    if not isinstance(document, Mapping):
        return None
    architecture = document["architecture"]
    return Expected(
        name=str(document["name"]),
        version=str(document["version"]),
        architecture=None if architecture is None else str(architecture),
    )
