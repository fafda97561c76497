# SPDX-License-Identifier: Apache-2.0
"""An output that came from a builder: nothing of it counts that is not what its digest says."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from derive.buildkit.output import SentOutput, checked_layer
from derive.errors import Corrupt, InputErrors
from derive.store.memory import MemoryStore
from derive.trees.listing import Listing, Symlink
from derive.trees.pack import add_members

CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def put(layout: Path, data: bytes, media_type: str) -> dict[str, object]:
    blobs = layout / "blobs/sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(data).hexdigest()
    (blobs / key).write_bytes(data)
    return {"digest": f"sha256:{key}", "mediaType": media_type, "size": len(data)}


def layout_of(layout: Path, *layers: bytes, media_type: str = LAYER) -> Path:
    config = put(layout, b"{}", CONFIG)
    document = {
        "config": config,
        "layers": [put(layout, data, media_type) for data in layers],
        "mediaType": MANIFEST,
        "schemaVersion": 2,
    }
    listed = put(layout, json.dumps(document).encode(), MANIFEST)
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [listed]}))
    return layout


def tar_of(*members: tuple[str, bytes, bytes, int]) -> bytes:
    """Name, type, contents or link target, mode."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, kind, data, mode in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = kind, mode
            if kind == tarfile.REGTYPE:
                entry.size = len(data)
            else:
                entry.linkname = data.decode()
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def read(layer: Path | None) -> tuple[Listing, tuple[tuple[bytes, int], ...], Mapping[bytes, bytes]]:
    store = MemoryStore()
    with SentOutput(layer, "it") as found:
        listing = add_members(store, found.members())
    return listing, found.special_bits, {path: b"".join(store.read(file)) for path, file in listing.files()}


def test_members_come_in_nar_order_with_links_of_both_kinds_and_special_bits(tmp_path: Path) -> None:
    tar = tar_of(
        ("z", tarfile.REGTYPE, b"last", 0o4711),
        ("a/b", tarfile.REGTYPE, b"first", 0o644),
        ("a/.wh.c", tarfile.REGTYPE, b"a name like others", 0o644),
        ("same", tarfile.LNKTYPE, b"z", 0o4711),
        ("link", tarfile.SYMTYPE, b"/anywhere", 0o777),
    )
    layer = checked_layer(layout_of(tmp_path, tar), "it")
    listing, special, contents = read(layer)
    assert list(listing) == [b"", b"a", b"a/.wh.c", b"a/b", b"link", b"same", b"z"]
    assert listing[b"link"] == Symlink(b"/anywhere")
    assert listing[b"same"] == listing[b"z"]
    assert contents == {b"a/.wh.c": b"a name like others", b"a/b": b"first", b"same": b"last", b"z": b"last"}
    assert special == ((b"same", 0o4711), (b"z", 0o4711))


def test_no_layer_is_an_empty_tree(tmp_path: Path) -> None:
    layer = checked_layer(layout_of(tmp_path), "it")
    assert layer is None
    assert list(read(layer)[0]) == [b""]


@pytest.mark.parametrize("which", ["layer", "manifest"])
def test_a_byte_that_changed_on_the_way_is_found(tmp_path: Path, which: str) -> None:
    tar = tar_of(("a", tarfile.REGTYPE, b"x" * 100, 0o644))
    layout_of(tmp_path, tar)
    index = json.loads((tmp_path / "index.json").read_text())
    key = hashlib.sha256(tar).hexdigest() if which == "layer" else index["manifests"][0]["digest"][7:]
    blob = tmp_path / "blobs/sha256" / key
    data = bytearray(blob.read_bytes())
    data[-1 if which == "manifest" else 600] ^= 1
    blob.write_bytes(data)
    with pytest.raises(Corrupt, match="not what its digest says"):
        checked_layer(tmp_path, "it")


def test_what_is_no_image_of_one_plain_layer_is_refused(tmp_path: Path) -> None:
    tar = tar_of(("a", tarfile.REGTYPE, b"x", 0o644))
    with pytest.raises(Corrupt, match="not an image of one layer"):
        checked_layer(layout_of(tmp_path / "two", tar, tar), "it")
    with pytest.raises(Corrupt, match="not an uncompressed tar"):
        checked_layer(layout_of(tmp_path / "packed", tar, media_type=f"{LAYER}+gzip"), "it")
    with pytest.raises(Corrupt, match="no image in a layout"):
        checked_layer(tmp_path / "nothing", "it")


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (("../up", tarfile.REGTYPE, b"", 0o644), "climbs out"),
        (("pipe", tarfile.FIFOTYPE, b"", 0o644), "a fifo"),
        (("device", tarfile.CHRTYPE, b"", 0o644), "a character device"),
        (("hard", tarfile.LNKTYPE, b"absent", 0o644), "which is not before it"),
    ],
)
def test_what_no_tree_can_hold_is_named(tmp_path: Path, member: tuple[str, bytes, bytes, int], said: str) -> None:
    layer = checked_layer(layout_of(tmp_path, tar_of(member)), "it")
    with pytest.raises(InputErrors) as caught:
        read(layer)
    assert said in caught.value.problems()[0].message
