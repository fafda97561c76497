# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import Digest
from derive.errors import Corrupt
from derive.images.shown import file_differences, shown_files
from derive.store.memory import MemoryStore
from support.archives import Tar, folder, put, symlink, tar
from support.oci_registry import image


def added(store: MemoryStore, *layers: bytes) -> Digest:
    made = image(*layers)
    for data in made.blobs.values():
        put(store, data)
    return put(store, made.manifest)


def test_an_image_shows_bits_owners_and_contents_and_upper_layers_win() -> None:
    store = MemoryStore()
    below = tar(folder(b"o"), Tar(name=b"o/x", data=b"old"), symlink(b"l", b"o/x"))
    shown = shown_files(store, added(store, below, tar(Tar(name=b"o/x", data=b"new", mode=0o4711))), name="it")
    assert set(shown) == {b"o", b"o/x", b"l"}
    assert (shown[b"o/x"].mode, shown[b"o/x"].size) == (0o4711, 3)
    assert shown[b"l"].what == b"o/x"


def test_what_a_layer_takes_away_shows_as_a_difference() -> None:
    store = MemoryStore()
    kept, taken = (added(store, tar(Tar(name=b"x", data=b"x")), *more) for more in ((), (tar(Tar(name=b".wh.x")),)))
    (line,) = file_differences(shown_files(store, kept, name="a"), shown_files(store, taken, name="b"))
    assert line.startswith("/.wh.x: nothing, and in the other file")


@pytest.mark.parametrize(
    "other",
    [Tar(name=b"x", data=b"b"), Tar(name=b"x", data=b"a", mode=0o600), Tar(name=b"y", data=b"a"), symlink(b"x", b"a")],
    ids=["contents", "mode", "name", "kind"],
)
def test_images_that_show_something_else_at_a_path_differ_there(other: Tar) -> None:
    store = MemoryStore()
    one, two = (shown_files(store, added(store, tar(entry)), name="it") for entry in (Tar(name=b"x", data=b"a"), other))
    assert file_differences(one, two)
    assert not file_differences(one, one)


def test_a_layer_that_goes_on_after_its_end_is_refused() -> None:
    store = MemoryStore()
    with pytest.raises(Corrupt, match="goes on after its end"):
        shown_files(store, added(store, tar(Tar(name=b"x")) + b"y" * 512), name="it")
