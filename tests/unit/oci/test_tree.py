# SPDX-License-Identifier: Apache-2.0
"""Layers laid one upon another, as container engines lay them; hostile ones are refused by name."""

from __future__ import annotations

import bz2
import json
import lzma

import pytest

from derive.archives.names import Limits
from derive.canonical import Digest, sha256
from derive.errors import Corrupt, DeriveError, InputErrors, Missing
from derive.oci.tree import oci_tree
from derive.store.memory import MemoryStore
from support.archives import Tar, contents, folder, hardlink, put, said, symlink, tar
from support.oci_registry import Image, image, index


def stored(store: MemoryStore, item: Image) -> Digest:
    for data in item.blobs.values():
        put(store, data)
    return put(store, item.manifest)


def laid(*layers: bytes) -> dict[bytes, object]:
    store = MemoryStore()
    return contents(store, oci_tree(store, stored(store, image(*layers)), name="it").listing)


def refusal(*layers: bytes) -> str:
    with pytest.raises(DeriveError) as caught:
        laid(*layers)
    return said(caught.value)


def file(name: bytes, data: bytes = b"", mode: int = 0o644) -> Tar:
    return Tar(name=name, data=data or name, mode=mode)


BELOW = tar(folder(b"a"), file(b"a/x"), file(b"a/y"), folder(b"a/deep"), file(b"a/deep/z"), file(b"b"))


def test_later_layers_replace_and_add() -> None:
    assert laid(BELOW, tar(Tar(name=b"b", data=b"new"), file(b"c", mode=0o755))) == {
        b"a": "/",
        b"a/deep": "/",
        b"a/deep/z": b"a/deep/z",
        b"a/x": b"a/x",
        b"a/y": b"a/y",
        b"b": b"new",
        b"c": (b"c", "x"),
    }


def test_a_whiteout_takes_away_a_file_or_a_whole_folder() -> None:
    assert laid(BELOW, tar(file(b"a/.wh.x"), file(b"a/.wh.deep"), file(b".wh.absent"))) == {
        b"a": "/",
        b"a/y": b"a/y",
        b"b": b"b",
    }


def test_a_file_may_come_back_in_the_layer_that_takes_it_away() -> None:
    assert laid(BELOW, tar(file(b".wh.b"), file(b"b", b"new")))[b"b"] == b"new"


def test_an_opaque_folder_shows_nothing_of_the_layers_below() -> None:
    given = [folder(b"a"), folder(b"a/deep"), file(b"a/deep/new"), file(b"a/new")]
    opaque = Tar(name=b"a/.wh..wh..opq")
    for layer in (tar(opaque, *given), tar(*given, opaque)):
        assert laid(BELOW, layer) == {
            b"a": "/",
            b"a/deep": "/",
            b"a/deep/new": b"a/deep/new",
            b"a/new": b"a/new",
            b"b": b"b",
        }


def test_what_was_taken_away_may_come_back() -> None:
    assert laid(BELOW, tar(file(b".wh.a")), tar(file(b"a/x", b"again"))) == {b"a": "/", b"a/x": b"again", b"b": b"b"}


def test_a_file_replaces_a_folder_of_a_layer_below_and_the_other_way_round() -> None:
    assert laid(BELOW, tar(file(b"a"))) == {b"a": b"a", b"b": b"b"}
    assert laid(BELOW, tar(folder(b"b"), file(b"b/c")))[b"b/c"] == b"b/c"
    assert laid(BELOW, tar(file(b"b/c")))[b"b/c"] == b"b/c"


def test_a_hard_link_is_a_file_of_its_own() -> None:
    layers = tar(file(b"c"), hardlink(b"d", b"c"), symlink(b"l", b"c"), hardlink(b"m", b"l")), tar(file(b"c", b"new"))
    assert laid(*layers) == {b"c": b"new", b"d": b"c", b"l": b"-> c", b"m": b"-> c"}


def test_a_path_leads_through_the_links_of_its_own_layer() -> None:
    given = [folder(b"usr"), folder(b"usr/lib"), symlink(b"lib", b"usr/lib"), symlink(b"up", b"../../../usr")]
    assert laid(tar(*given, file(b"lib/x"), file(b"up/y"), hardlink(b"z", b"up/lib/x"))) == {
        b"lib": b"-> usr/lib",
        b"up": b"-> ../../../usr",
        b"usr": "/",
        b"usr/lib": "/",
        b"usr/lib/x": b"lib/x",
        b"usr/y": b"up/y",
        b"z": b"lib/x",
    }


def test_a_folder_given_or_implied_where_a_lower_link_stands_replaces_the_link() -> None:
    below = tar(symlink(b"lib", b"usr/lib"), file(b"usr/lib/x"))
    covered = {b"lib": "/", b"usr": "/", b"usr/lib": "/", b"usr/lib/x": b"usr/lib/x"}
    assert laid(below, tar(folder(b"lib"), file(b"lib/y"))) == {**covered, b"lib/y": b"lib/y"}
    assert laid(below, tar(file(b"lib/y"))) == {**covered, b"lib/y": b"lib/y"}
    assert laid(below, tar(file(b"lib/.wh.x"))) == covered


def test_metadata_of_aufs_is_left_out_and_noted() -> None:
    store = MemoryStore()
    found = oci_tree(store, stored(store, image(tar(file(b".wh..wh.aufs"), file(b"x")))))
    assert contents(store, found.listing) == {b"x": b"x"}
    assert [note.path for note in found.notes] == [b".wh..wh.aufs"]


def test_names_that_merely_hold_a_whiteouts_letters_are_names() -> None:
    assert laid(tar(file(b"a.wh.b"), file(b"x/c.wh."))) == {b"a.wh.b": b"a.wh.b", b"x": "/", b"x/c.wh.": b"x/c.wh."}


def test_names_need_not_be_utf8_and_their_order_in_a_layer_decides_nothing() -> None:
    assert laid(tar(file(b"caf\xe9"), file(b"\x01")), tar(file(b".wh.\x01"))) == {b"caf\xe9": b"caf\xe9"}


def test_empty_layers_and_images_without_layers_are_trees() -> None:
    assert laid() == laid(tar(), tar()) == laid(tar(folder(b"./"))) == {}


def test_the_digest_does_not_depend_on_compression() -> None:
    digests = set()
    for packed in (True, False):
        store = MemoryStore()
        found = oci_tree(store, stored(store, image(BELOW, tar(file(b".wh.a")), packed=packed)))
        digests.add(store.add_listing(found.listing))
    assert len(digests) == 1


@pytest.mark.parametrize("compress", [lzma.compress, bz2.compress])
def test_other_compressions_are_found_by_their_first_bytes(compress: object) -> None:
    assert callable(compress)
    store = MemoryStore()
    packed = compress(BELOW)
    for data in image(BELOW, packed=False).blobs.values():
        put(store, data)
    manifest = json.loads(image(BELOW, packed=False).manifest)
    manifest["layers"][0] |= {"digest": str(put(store, packed)), "size": len(packed)}
    assert b"a/x" in oci_tree(store, put(store, json.dumps(manifest).encode())).listing


def test_what_a_tree_cannot_keep_is_noted_for_the_file_that_stands_there_in_the_end() -> None:
    store = MemoryStore()
    below = tar(
        file(b"su", mode=0o4755), file(b"ping", mode=0o4755), folder(b"tmp", mode=0o1777), file(b"gone", mode=0o600)
    )
    found = oci_tree(store, stored(store, image(below, tar(file(b"ping", mode=0o755), file(b".wh.gone")))))
    assert [(note.path, getattr(note, "what", "")) for note in found.notes] == [
        (b"su", "mode 4755, setuid"),
        (b"tmp", "mode 1777, sticky"),
    ]


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (tar(Tar(name=b"dev/null", kind=b"3")), "dev/null: a character device in an archive"),
        (tar(Tar(name=b"dev/sda", kind=b"4")), "dev/sda: a block device in an archive"),
        (tar(Tar(name=b"pipe", kind=b"6")), "pipe: a fifo in an archive"),
        (tar(file(b"../x")), "climbs out with .."),
        (tar(file(b"/x")), "an absolute path"),
        (tar(file(b".wh.")), "a whiteout of no name"),
        (tar(file(b"a/.wh...")), "a whiteout of no name"),
        (tar(file(b"a/.wh..wh.x")), "a whiteout of no name"),
        (tar(folder(b".wh..wh.plnk")), "a whiteout that is a folder"),
        (tar(Tar(name=b".wh..wh..opq")), "hides all layers below"),
        (tar(file(b"b"), file(b".wh.b")), ".wh.b: a whiteout of what the same layer gives"),
        (tar(file(b"a/new"), file(b".wh.a")), ".wh.a: a whiteout of what the same layer gives"),
        (tar(file(b".wh.a"), folder(b"a")), "a: a folder that the same layer takes away"),
        (tar(file(b".wh.a"), file(b"a/new")), "a/new: a path below a, which is no folder"),
        (tar(file(b"c"), file(b"c")), "c: the same path twice in a layer"),
        (tar(symlink(b"l", b"a"), file(b"l/x")), "l/x: a path through a symbolic link that leads to nothing of its"),
        (tar(folder(b".wh.a")), "a whiteout that is a folder"),
        (tar(file(b".wh.a/b")), "a path below a whiteout"),
        (tar(file(b"c"), file(b"c/d")), "c/d: a path below c, which is no folder"),
        (tar(file(b"c"), folder(b"c")), "c: the same path twice in a layer"),
        (tar(folder(b"c"), file(b"c/d"), file(b"c")), "c: the same path twice in a layer"),
        (tar(hardlink(b"c", b"none")), "c: a hard link to none, which is not before it in its layer"),
        (tar(hardlink(b"c", b"b")), "c: a hard link to b, which is not before it in its layer"),
        (tar(folder(b"d"), hardlink(b"c", b"d")), "c: a hard link to the folder d"),
        (tar(symlink(b"l", b"l"), file(b"l/x")), "l/x: a path through a symbolic link that loops"),
        (tar(symlink(b"l", b"m"), symlink(b"m", b"l")), "l: a symbolic link that loops"),
    ],
)
def test_what_no_layer_may_hold_is_refused_by_name(layer: bytes, words: str) -> None:
    assert words in refusal(BELOW, layer)


def test_the_layer_is_named_by_its_number_and_digest() -> None:
    layer = tar(file(b".wh."))
    blob = [name for name in image(BELOW, layer).blobs if name != str(sha256(BELOW))][-1]
    assert refusal(BELOW, layer).startswith(f"it: layer 1 ({Digest.parse(blob).short}): .wh.: ")


def test_a_layer_that_unpacks_to_too_much_is_refused() -> None:
    store = MemoryStore()
    manifest = stored(store, image(tar(file(b"zeros", bytes(5_000_000)))))
    with pytest.raises(InputErrors, match="problem"):
        oci_tree(store, manifest, limits=Limits(free_bytes=1_000_000))


def test_a_layer_that_is_not_the_configs_is_corrupt() -> None:
    store = MemoryStore()
    one, other = image(BELOW), image(tar(file(b"x")))
    for data in (*one.blobs.values(), *other.blobs.values()):
        put(store, data)
    manifest = json.loads(one.manifest)
    manifest["layers"] = json.loads(other.manifest)["layers"]
    with pytest.raises(Corrupt, match="not the one that the config names") as caught:
        oci_tree(store, put(store, json.dumps(manifest).encode()))
    assert caught.value.detail[0] == f"expected  {sha256(BELOW)}"
    manifest["layers"] *= 2
    with pytest.raises(Corrupt, match="the config is not this manifest's"):
        oci_tree(store, put(store, json.dumps(manifest).encode()))


def test_a_layer_of_another_size_or_kind_is_refused() -> None:
    store = MemoryStore()
    manifest = json.loads(image(BELOW).manifest)
    stored(store, image(BELOW))
    manifest["layers"][0]["size"] += 1
    with pytest.raises(Corrupt, match="another size than its manifest states"):
        oci_tree(store, put(store, json.dumps(manifest).encode()))
    manifest["layers"][0]["mediaType"] = "application/vnd.oci.image.layer.v1.tar+gzip+encrypted"
    with pytest.raises(InputErrors) as caught:
        oci_tree(store, put(store, json.dumps(manifest).encode()))
    assert "a layer that is no tar archive" in said(caught.value)


def test_an_index_is_no_image_and_absent_blobs_are_missing() -> None:
    store = MemoryStore()
    item = image(BELOW)
    with pytest.raises(Corrupt, match="an index of several images"):
        oci_tree(store, put(store, index(item)[1]))
    with pytest.raises(Missing):
        oci_tree(store, put(store, item.manifest))
