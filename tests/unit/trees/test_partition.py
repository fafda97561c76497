# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import sha256
from derive.trees.listing import DIRECTORY, EMPTY, Entry, File, Listing, Symlink
from derive.trees.partition import given_twice, leaves, partition, without


def file(text: bytes) -> File:
    return File(executable=False, size=len(text), sha256=sha256(text))


def tree(*paths: bytes, others: dict[bytes, Entry] | None = None) -> Listing:
    entries: dict[bytes, Entry] = {path: file(path) for path in paths}
    return Listing.of(entries | (others or {}))


def test_leaves_are_files_links_and_empty_folders() -> None:
    listing = tree(b"a/b", others={b"a.d": DIRECTORY, b"a-": DIRECTORY, b"l": Symlink(b"a"), b"z": DIRECTORY})
    assert [path for path, _ in leaves(listing)] == [b"a/b", b"a-", b"a.d", b"l", b"z"]
    assert list(leaves(EMPTY)) == []
    assert [path for path, _ in leaves(Listing.of({b"": file(b"x")}))] == [b""]


def test_a_part_has_its_leaves_and_the_folders_above_them() -> None:
    listing = tree(b"lib/a.so", b"lib/b.py", b"lib/c/d.so", others={b"e": DIRECTORY})
    parts = partition(listing, lambda path, _: "so" if path.endswith(b".so") else "py", ("so", "py", "none"))
    assert list(parts["so"]) == [b"", b"lib", b"lib/a.so", b"lib/c", b"lib/c/d.so"]
    assert list(parts["py"]) == [b"", b"e", b"lib", b"lib/b.py"]
    assert parts["none"] == EMPTY


def test_a_leaf_that_is_put_nowhere_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        partition(tree(b"a"), lambda _path, _entry: "b", ("c",))


def test_what_stands_elsewhere_goes_with_the_folders_that_held_nothing_else() -> None:
    listing = tree(b"a/b/c", b"a/d", others={b"x": DIRECTORY})
    assert without(listing, tree(b"a/b/c")) == tree(b"a/d", others={b"x": DIRECTORY})
    assert without(listing, listing) == Listing.of({b"x": DIRECTORY})
    assert without(tree(b"a"), tree(b"a")) == EMPTY


def test_a_folder_beside_a_folder_stays_and_a_file_beside_a_folder_goes() -> None:
    assert without(Listing.of({b"a": DIRECTORY}), tree(b"a/b")) == Listing.of({b"a": DIRECTORY})
    assert without(tree(b"a"), tree(b"a/b")) == EMPTY


def test_nothing_elsewhere_changes_nothing() -> None:
    assert without(tree(b"a/b"), EMPTY) == tree(b"a/b")


def test_given_twice_are_files_and_links_that_two_parts_have_alike() -> None:
    one, two = (tree(b"n/init", path, others={b"l": Symlink(b"n")}) for path in (b"n/1", b"n/2"))
    assert given_twice([one, two]) == tree(b"n/init", others={b"l": Symlink(b"n")})
    assert given_twice([one]) == EMPTY


def test_what_two_parts_give_differently_is_left_to_each() -> None:
    assert given_twice([tree(b"f"), tree(b"f/g"), Listing.of({b"f": Symlink(b"g")})]) == EMPTY
