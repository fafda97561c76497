# SPDX-License-Identifier: Apache-2.0
"""What a store keeps of a release, as roots that a collection leaves alone: its images, its content, its engine.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.canonical import Digest
from derive.releases.document import Release
from derive.store.local import LocalStore
from derive.store.protocol import read_all
from derive.trees.listing import File
from derive.trees.pack import NewFile, add_members

KIND = "release"
_CONTENT = "content"
_ENGINE = "engine"


def keep_release(store: LocalStore, name: str, release: Release, files: Mapping[str, bytes]) -> None:
    """Make roots of a release's images, its content files and the engine that runs; nothing in a store not writable."""
    if store.read_only:
        return
    from derive.engine.fetch import keep_source
    from derive.engine.source import engine_files

    for platform, image in release.images.items():
        store.database.set_root(KIND, f"{name} {platform}", image.digest)
    members = ((path.encode(), NewFile(executable=False, chunks=(data,))) for path, data in sorted(files.items()))
    store.database.set_root(KIND, f"{name} {_CONTENT}", store.add_listing(add_members(store, members)))
    store.database.set_root(KIND, f"{name} {_ENGINE}", keep_source(store, engine_files()))


def kept_content(store: LocalStore, name: str, wanted: Mapping[str, Digest]) -> Iterator[tuple[str, bytes]]:
    """Yield those files of a release's content that were kept, and are as wanted."""
    tree = next(
        (one for kind, root, one in store.database.roots() if (kind, root) == (KIND, f"{name} {_CONTENT}")), None
    )
    if tree is None or not store.has_tree(tree):
        return
    listing = store.listing(tree)
    for path, digest in wanted.items():
        entry = listing.get(path.encode())
        if isinstance(entry, File) and entry.sha256 == digest:
            yield path, read_all(store, entry)
