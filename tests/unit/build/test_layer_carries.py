# SPDX-License-Identifier: Apache-2.0
"""The steps from a fetched wheel to a layer that carries its streams."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

from derive.canonical import Digest, decode
from derive.derivations import steps
from derive.derivations.model import BuiltInput, Derivation, Output
from derive.images.encoding import Encoding
from derive.images.layer import LayerDescriptor
from derive.images.modes import ModeTable
from derive.lock.documents import WheelEntry
from derive.store.memory import MemoryStore
from derive.trees.listing import Listing
from support.archives import Zip, put, wheel
from support.layers import archive, blob, tree
from support.realised import Realised

MODES = ModeTable().to_document()
TEXT = b"".join(b"%d squared is %d\n" % (n, n * n) for n in range(5000))
MODULE = Zip(name=b"demo/data.txt", data=TEXT)
NEIGHBOUR = Zip(name=b"demo/other.txt", data=TEXT[1:])


def locked(store: MemoryStore) -> WheelEntry:
    """A wheel in the store, as a lock names it."""
    data = wheel(MODULE, NEIGHBOUR)
    digest = put(store, data)
    return WheelEntry(
        name="demo", version="1.0", file="demo-1.0-py3-none-any.whl", size=len(data), sha256=digest, licence="MIT"
    )


def layer(entry: WheelEntry, name: str, *trees: Derivation) -> Derivation:
    return steps.layer(
        "it", [BuiltInput(one) for one in trees], MODES, Encoding(name=name).to_document(), wheels=[entry]
    )


def test_what_a_step_carries_is_in_its_blob_and_what_was_patched_is_not() -> None:
    store = MemoryStore()
    realised, entry = Realised(store), locked(store)
    changed = store.add_listing(Listing.of(tree(store, {b"demo/other.txt": b"# patched\n" + TEXT[1:]})))
    unpacked = steps.unpack_wheel(entry)
    parts = [("wheel", "", unpacked), ("patch", "", steps.work_tree("patch", changed))]
    patched = steps.composed("patched", parts, {"/demo/other.txt": "patch"})
    given = realised(layer(entry, "gzip-members/2", patched))
    written = blob(store, given["out"].digest)
    listing = store.listing(realised.tree(patched))
    assert gzip.decompress(written) == archive(store, listing)
    assert [stream_of(one) in written for one in (MODULE, NEIGHBOUR)] == [True, False]
    plain = realised(layer(entry, "gzip-members/1", patched))
    assert given["out"] != plain["out"]
    assert diff_id(store, given) == diff_id(store, plain)


def diff_id(store: MemoryStore, given: Mapping[str, Output]) -> Digest:
    return LayerDescriptor.from_document(decode(blob(store, given["descriptor"].digest))).diff_id


def stream_of(entry: Zip) -> bytes:
    """The deflate stream that an entry has in the wheel."""
    return entry.local()[30 + len(entry.name) :]
