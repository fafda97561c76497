# SPDX-License-Identifier: Apache-2.0
"""Trees as contexts: the same bytes each time, written once, with the sandbox's owner, modes and time."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.buildkit.contexts import Contexts
from derive.canonical import EPOCH, Digest
from derive.errors import BuildFailed
from derive.store.local import LocalStore
from derive.trees.listing import DIRECTORY, Symlink
from derive.trees.pack import NewFile, add_members


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as found:
        yield found


def tree(store: LocalStore, **names: bytes) -> Digest:
    files = [(name.encode(), NewFile(executable=name == "tool", chunks=[data])) for name, data in names.items()]
    return store.add_listing(add_members(store, [*files, (b"d", DIRECTORY), (b"l", Symlink(b"a"))]))


def members_of(store: LocalStore, blob: Digest) -> dict[str, tarfile.TarInfo]:
    data = gzip.decompress(b"".join(store.read_blob(blob)))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar}


def test_a_layer_has_the_modes_owner_and_time_that_the_sandbox_shows(store: LocalStore, tmp_path: Path) -> None:
    layer = Contexts(store, tmp_path / "contexts").layer(tree(store, a=b"x", tool=b"y"), below=b"tree")
    found = members_of(store, layer.blob)
    modes = {name: member.mode for name, member in found.items()}
    assert modes == {"tree": 0o555, "tree/a": 0o444, "tree/d": 0o555, "tree/l": 0o777, "tree/tool": 0o555}
    assert {(member.uid, member.gid, member.mtime) for member in found.values()} == {(1000, 1000, EPOCH)}


def test_a_layer_is_written_once_and_known_afterwards(store: LocalStore, tmp_path: Path) -> None:
    digest = tree(store, a=b"x")
    first = Contexts(store, tmp_path / "one").layer(digest)
    written = store.blob_path(first.blob).stat().st_mtime_ns
    assert Contexts(store, tmp_path / "two").layer(digest) == first
    assert store.blob_path(first.blob).stat().st_mtime_ns == written


def test_a_layer_that_was_collected_is_written_again(store: LocalStore, tmp_path: Path) -> None:
    digest = tree(store, a=b"x")
    first = Contexts(store, tmp_path / "one").layer(digest)
    store.blob_path(first.blob).unlink()
    assert Contexts(store, tmp_path / "two").layer(digest) == first
    assert store.has_blob(first.blob)


def test_a_layers_diff_id_is_that_of_the_tar_in_it(store: LocalStore, tmp_path: Path) -> None:
    layer = Contexts(store, tmp_path / "contexts").layer(tree(store, a=b"x" * 3000))
    data = gzip.decompress(b"".join(store.read_blob(layer.blob)))
    assert hashlib.sha256(data).hexdigest() == layer.diff_id.hex


def test_a_name_that_takes_away_in_a_layer_cannot_be_sent(store: LocalStore, tmp_path: Path) -> None:
    listing = add_members(store, [(b"d/.wh.x", NewFile(executable=False, chunks=[b""]))])
    with pytest.raises(BuildFailed, match="cannot be sent") as caught:
        Contexts(store, tmp_path / "contexts").layer(listing)
    assert caught.value.detail == ("name  d/.wh.x",)


def test_an_image_is_one_by_its_digest_in_a_layout_whose_blobs_are_the_stores(
    store: LocalStore, tmp_path: Path
) -> None:
    contexts = Contexts(store, tmp_path / "contexts")
    layer = contexts.layer(tree(store, a=b"x"))
    image = contexts.image([layer], "linux/arm64", {"Env": ["A=b"]})
    assert contexts.image([layer], "linux/arm64", {"Env": ["A=b"]}) == image
    assert contexts.place(image) == f"oci-layout://{tmp_path}/contexts@{image}"
    manifest = json.loads((tmp_path / "contexts/blobs/sha256" / image.hex).read_bytes())
    config = json.loads((tmp_path / "contexts/blobs/sha256" / manifest["config"]["digest"][7:]).read_bytes())
    assert (config["os"], config["architecture"], config["config"]) == ("linux", "arm64", {"Env": ["A=b"]})
    assert config["rootfs"]["diff_ids"] == [str(layer.diff_id)]
    assert manifest["layers"] == [
        {"digest": str(layer.blob), "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "size": layer.size}
    ]


def test_folders_of_the_sandbox_have_the_modes_asked_for(store: LocalStore, tmp_path: Path) -> None:
    layer = Contexts(store, tmp_path / "contexts").folders({b"out": 0o755, b"tmp": 0o1777})
    assert {name: member.mode for name, member in members_of(store, layer.blob).items()} == {
        "out": 0o755,
        "tmp": 0o1777,
    }
