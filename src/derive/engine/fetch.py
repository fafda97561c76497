# SPDX-License-Identifier: Apache-2.0
"""Brings an engine's source into a store: the running engine's own files, else a NAR that an archive keeps.

Edge: the store, the package's own files, archives through the fetcher.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from derive.engine.model import members, source_of
from derive.engine.source import engine_files
from derive.errors import Unavailable, UpstreamGone
from derive.trees.pack import add_members

if TYPE_CHECKING:
    from derive.canonical import Digest
    from derive.net.fetch import Fetcher
    from derive.store.local import LocalStore


def bring_source(fetcher: Fetcher, store: LocalStore, nar: Digest, what: str) -> Digest:
    """Bring the source whose tree digest is ``nar`` into a store, and return that; ``what`` is its name for people.

    Raises:
        UpstreamGone: when it is neither the running engine's, nor in an archive.
        Corrupt: when an archive holds other bytes under its name.
    """
    if store.has_tree(nar):
        return nar
    files = engine_files()
    if source_of(files).nar == nar:
        return keep_source(store, files)
    from derive.trees.nar_read import locate_nar

    try:
        fetcher.fetch_blob(nar, None, what)
    except Unavailable as error:
        raise UpstreamGone(
            f"the source of the engine {what} is not at hand",
            detail=[f"wanted    nar:{nar}", f"running   nar:{source_of(files).nar}", *error.detail],
            hint="name a capsule of a release that it made as an archive, in DERIVE_ARCHIVES",
        ) from error
    return store.add_listing(locate_nar(store.read_blob(nar), nar))


def keep_source(store: LocalStore, files: Mapping[str, bytes]) -> Digest:
    """Put the files of an engine into a store as the tree of its source, and return the digest of that."""
    return store.add_listing(add_members(store, members(files)))


def is_own(nar: Digest) -> bool:
    """Say whether a source is that of the running engine, which needs no archive."""
    return source_of(engine_files()).nar == nar
