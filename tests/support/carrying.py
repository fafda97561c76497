# SPDX-License-Identifier: Apache-2.0
"""Archives whose deflate streams a layer carries over, made by hand."""

from __future__ import annotations

from collections.abc import Mapping

from derive.archives.unpack import unpack_zip
from derive.canonical import Digest
from derive.images.carry import Stream, Wheel, carry_map
from derive.store.protocol import Store
from support.archives import Zip, put, zipped


def wheel_of(store: Store, data: bytes, name: str = "demo.whl") -> Wheel:
    """Put an archive into the store, and return it with the tree that it unpacks to."""
    archive = put(store, data)
    members = unpack_zip(store, archive, name=name).listing
    return Wheel(name=name, archive=archive, size=len(data), members=members)


def wheel(store: Store, files: Mapping[bytes, bytes], name: str = "demo.whl") -> Wheel:
    """Return a wheel in which these files are deflated."""
    return wheel_of(store, zipped(*(Zip(name=path, data=data) for path, data in files.items())), name)


def streams(store: Store, files: Mapping[bytes, bytes], least: int = 1) -> dict[tuple[Digest, int], Stream]:
    """Return the streams that a wheel of these files has."""
    return carry_map([wheel(store, files)], least, store.read_blob)
