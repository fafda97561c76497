# SPDX-License-Identifier: Apache-2.0
"""Which package of a Debian root owns a path, as dpkg's file lists in the root itself say.

Core: no IO of its own; it reads through the store that it is given.

Owners are names of packages without architecture: what two architectures of a package share is the package's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.archives.names import merged
from derive.debian.dpkg import FOLDER
from derive.debian.root import merged_folders
from derive.store.protocol import Store, read_all
from derive.trees.listing import Directory, File, Listing

_INFO = FOLDER + b"/info/"
_LIST = b".list"


def owners(store: Store, root: Listing) -> Mapping[bytes, str]:
    """Return the owner of each file and link that exactly one package lists, and of dpkg's own files about a package.

    Lists name paths as packages ship them; where folders are merged the owner is that of the path behind the link. The
    links that merge folders have no owner: some packages ship them as links, some as folders.
    """
    merge = merged_folders(root)
    found: dict[bytes, str | None] = {}
    for path, name in _listed(store, root):
        place = merged(path, merge)
        if place not in merge and not isinstance(root.get(place, None), Directory | None):
            found[place] = name if found.setdefault(place, name) == name else None
    return {path: name for path, name in found.items() if name is not None}


def _listed(store: Store, root: Listing) -> Iterator[tuple[bytes, str]]:
    """Yield every path of every list with its package, then the files that dpkg keeps for that package."""
    for path, entry in root.files():
        stem = path.removeprefix(_INFO).rpartition(b".")[0]
        if not path.startswith(_INFO) or not stem:
            continue
        name = stem.partition(b":")[0].decode("utf-8", "surrogateescape")
        yield path, name
        if path.endswith(_LIST):
            yield from ((line[1:], name) for line in _lines(store, entry) if line.startswith(b"/"))


def _lines(store: Store, file: File) -> list[bytes]:
    return read_all(store, file).split(b"\n")
