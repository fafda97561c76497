# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from derive.build.check import compare
from derive.canonical import Digest
from derive.derivations.model import FlatOutput
from derive.errors import Corrupt
from derive.store.local import LocalStore
from derive.trees.listing import Listing
from derive.trees.pack import NewFile, add_members


def spoil(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


def packed(store: LocalStore) -> tuple[Listing, Path]:
    listing = add_members(store, [(b"f", NewFile(executable=False, chunks=[b"good"]))])
    (location,) = [file.at for _, file in listing.files() if file.at is not None]
    return listing, store.blob_path(location.blob)


def test_contents_that_the_disk_changed_are_never_hashed_into_a_tree(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        listing, pack = packed(store)
        spoil(pack, b"evil")
        with pytest.raises(Corrupt) as caught:
            store.add_listing(listing)
        assert str(pack) in caught.value.detail[0]
        assert caught.value.hint == "remove that file; the next run fetches or builds it again"


def test_contents_that_the_disk_changed_are_never_laid_out_for_a_sandbox(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        listing, pack = packed(store)
        tree = store.add_listing(listing)
        spoil(pack, b"evil")
        with pytest.raises(Corrupt, match="damaged"):
            store.folder(tree)
        assert not list((tmp_path / "trees").iterdir())


def test_a_blob_that_was_cut_short_is_replaced_when_it_is_made_again(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        _, pack = packed(store)
        spoil(pack, b"go")
        packed(store)
        assert pack.read_bytes() == b"good"


def test_a_check_finds_a_stored_output_that_is_no_longer_what_its_name_says(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        _, pack = packed(store)
        output = FlatOutput(Digest(pack.name))
        assert list(compare(store, "layer", {"out": output}, {"out": output})) == []
        spoil(pack, b"evil")
        (difference,) = compare(store, "layer", {"out": output}, {"out": output})
        assert str(pack) in difference.what
