# SPDX-License-Identifier: Apache-2.0
"""Differences of what stores hold: outputs of steps, and files of trees.

Edge: stores.
"""

from __future__ import annotations

from derive.canonical import Digest
from derive.derivations.model import FlatOutput, Output, TreeOutput
from derive.differ.differ import differ
from derive.differ.model import LIMITS, Content, Limits
from derive.differ.trees import differ_trees
from derive.errors import Corrupt, Missing
from derive.store.protocol import Store
from derive.trees.listing import File, Listing
from derive.why.render import Line, line

IN_PASSING = Limits(lines=24, rows=6, files=2, read_bytes=512 << 20)
"""Where a difference is one of many that an answer tells of."""


def differ_outputs(
    name: str, first: Output, second: Output, stores: tuple[Store, Store], limits: Limits = LIMITS
) -> list[Line]:
    """Return how two outputs differ, each in its store; a line that says why, where one is not at hand or damaged."""
    try:
        if isinstance(first, FlatOutput) and isinstance(second, FlatOutput):
            contents = [_blob(store, one.digest) for store, one in zip(stores, (first, second), strict=True)]
            return differ(name, contents[0], contents[1], limits)
        if isinstance(first, TreeOutput) and isinstance(second, TreeOutput):
            listings = stores[0].listing(first.digest), stores[1].listing(second.digest)
            return differ_trees(*listings, (stores[0].read, stores[1].read), limits)
    except (Missing, Corrupt) as error:
        return [line(f"what differs inside is not shown: {error.problems()[0].message}", "dim")]
    return [line("one is a tree, the other a file")]


def differ_path(store: Store, trees: tuple[Listing, Listing], path: bytes) -> list[Line]:
    """Return how the files at one path of two trees differ; nothing where one of them is no file."""
    old, new = (tree.get(path) for tree in trees)
    if not isinstance(old, File) or not isinstance(new, File):
        return []
    contents = [Content(lambda one=one: store.read(one), one.size) for one in (old, new)]  # type: ignore[misc]
    return differ(path.decode("utf-8", "backslashreplace"), contents[0], contents[1], IN_PASSING)


def _blob(store: Store, digest: Digest) -> Content:
    return Content(lambda: store.read_blob(digest), store.blob_size(digest))
