# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.store.local import LocalStore
from derive.store.usage import ImageUsage, packages, usage
from support.stored import add_blob, fetched, image, tree


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def of(store: LocalStore, name: str) -> ImageUsage:
    (found,) = usage(store, [name]).images
    return found


def test_an_image_has_its_own_bytes_and_shares_others(store: LocalStore) -> None:
    shared = fetched(store, b"s" * 1000, "shared")
    own = fetched(store, b"o" * 300, "own")
    one = image(store, "one", tree(store, b"t" * 70, shared), tree(store, b"u" * 20, own))
    image(store, "two", tree(store, b"v" * 5, shared))
    found = of(store, "one")
    itself = store.blob_size(one.digest) + len("config one") + len("layer one")
    assert found.image == itself
    assert found.fetched == 1300
    assert found.total == itself + 1300 + 70 + 20
    assert found.exclusive == itself + 300 + 70 + 20
    assert of(store, "two@linux/amd64").exclusive == of(store, "two").total - 1000


def test_two_names_of_one_image_share_nothing_away(store: LocalStore) -> None:
    one = image(store, "one", fetched(store, b"x" * 100))
    store.database.set_root("image", "again linux/amd64", one.digest)
    assert of(store, "one").exclusive == of(store, "one").total


def test_what_is_no_image_s_is_told_by_kind_and_the_whole_adds_up(store: LocalStore) -> None:
    image(store, "one", tree(store, b"t" * 70, fetched(store, b"d" * 100)))
    add_blob(store, b"stray" * 10)
    stray = tree(store, b"unpacked" * 10)
    store.folder(stray.digest)
    found = usage(store)
    others = {kind: (count, size) for kind, count, size in found.others}
    assert others["blobs of no image"] == (2, 50 + 80)
    assert others["unpacked trees"] == (1, 80)
    assert others["listings"][0] == 2
    files = sum(p.stat().st_size for p in (store.root / "blobs" / "sha256").iterdir())
    rest = sum(size for kind, (_, size) in others.items() if kind != "blobs of no image")
    assert found.total == files + rest


def test_packages_are_told_with_what_was_unpacked_and_what_stands_in_layers(store: LocalStore) -> None:
    big, small = fetched(store, b"b" * 1000, "big"), fetched(store, b"s" * 10, "small")
    image(store, "one", tree(store, b"t" * 70, big))
    image(store, "two", tree(store, b"v" * 5, small))
    rows = [(one.name, one.archive, one.unpacked, one.in_layers) for one in packages(store)]
    assert rows == [("big", 1000, 70, 70), ("small", 10, 5, 5)]
    assert [one.name for one in packages(store, ["two"])] == ["small"]


def test_a_name_that_no_root_has_is_refused(store: LocalStore) -> None:
    image(store, "one", fetched(store, b"x"))
    with pytest.raises(InputErrors) as caught:
        usage(store, ["three"])
    assert caught.value.problems()[0].hint == "there are: one@linux/amd64"


def test_an_empty_store_has_no_images(store: LocalStore) -> None:
    assert usage(store).images == ()
    assert packages(store) == ()
