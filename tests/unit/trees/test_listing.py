# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import sha256
from derive.trees.listing import (
    DIRECTORY,
    EMPTY,
    Entry,
    File,
    Listing,
    ListingError,
    Location,
    Symlink,
    check_path,
    nar_key,
    parents,
)

FILE = File(executable=False, size=3, sha256=sha256(b"abc"))


def of(entries: dict[bytes, Entry]) -> Listing:
    return Listing.of(entries)


def test_a_listing_is_in_nar_order_whatever_the_order_given() -> None:
    names = [b"a!", b"a/z", b"a", b"a.b", b"", b"\xff", b"A", b"a/b/c", b"a/b"]
    entries: list[tuple[bytes, Entry]] = [(n, FILE if n in (b"a!", b"a/z", b"a/b/c") else DIRECTORY) for n in names]
    expected = [b"", b"A", b"a", b"a/b", b"a/b/c", b"a/z", b"a!", b"a.b", b"\xff"]
    assert list(Listing.of(entries)) == expected
    assert list(Listing.of(reversed(entries))) == expected
    assert Listing.of(entries) == Listing.of(dict(entries))


def test_absent_parents_are_added_as_folders() -> None:
    assert dict(Listing.of({b"a/b/c": FILE})) == {b"": DIRECTORY, b"a": DIRECTORY, b"a/b": DIRECTORY, b"a/b/c": FILE}


def test_a_tree_of_nothing_is_an_empty_folder() -> None:
    assert dict(EMPTY) == dict(Listing.of([])) == {b"": DIRECTORY}


def test_a_tree_may_be_one_file_or_one_link() -> None:
    assert dict(Listing.of({b"": FILE})) == {b"": FILE}
    assert dict(Listing.of({b"": Symlink(b"x")})) == {b"": Symlink(b"x")}


@pytest.mark.parametrize(
    "path", [b"/", b"/a", b"a/", b"a//b", b".", b"./a", b"a/.", b"..", b"a/../b", b"../a", b"a\0b", b"\0"]
)
def test_a_path_that_is_not_inside_a_tree_is_refused(path: bytes) -> None:
    with pytest.raises(ListingError):
        check_path(path)
    with pytest.raises(ListingError):
        Listing.of([(path, FILE)])


@pytest.mark.parametrize("path", [b"", b"a", b"...", b".a", b"a./..b", b" ", b"\xff\n", b"%2F", b"a" * 5000])
def test_any_other_bytes_are_a_path(path: bytes) -> None:
    check_path(path)
    assert path in Listing.of([(path, DIRECTORY)])


@pytest.mark.parametrize("above", [FILE, Symlink(b"b")])
@pytest.mark.parametrize("top", [b"", b"a", b"a/b"])
def test_nothing_lies_below_a_file_or_a_link(above: Entry, top: bytes) -> None:
    with pytest.raises(ListingError, match="no folder"):
        Listing.of({b"a/b/c": FILE, top: above})


def test_a_path_given_twice_is_refused_by_name() -> None:
    with pytest.raises(ListingError, match="twice: caf%E9"):
        Listing.of([(b"caf\xe9", FILE), (b"caf\xe9", FILE)])


@pytest.mark.parametrize("target", [b"", b"a\0b"])
def test_a_link_target_that_no_file_system_holds_is_refused(target: bytes) -> None:
    with pytest.raises(ListingError, match="link target"):
        Listing.of({b"a": Symlink(target)})


def test_where_contents_lie_is_no_fact_of_a_tree() -> None:
    located = File(executable=False, size=3, sha256=FILE.sha256, at=Location(sha256(b"pack"), 7, 3))
    assert Listing.of({b"a": located}) == Listing.of({b"a": FILE})
    assert hash(Listing.of({b"a": located})) == hash(Listing.of({b"a": FILE}))


@pytest.mark.parametrize(
    "other",
    [
        {b"b": FILE},
        {b"a": DIRECTORY},
        {b"a": Symlink(b"a")},
        {b"a": File(executable=True, size=3, sha256=sha256(b"abc"))},
        {b"a": File(executable=False, size=3, sha256=sha256(b"abd"))},
        {b"a": FILE, b"b": DIRECTORY},
    ],
)
def test_every_fact_tells_listings_apart(other: dict[bytes, Entry]) -> None:
    assert Listing.of(other) != Listing.of({b"a": FILE})


def test_a_listing_is_not_changed_by_changing_what_it_was_made_from() -> None:
    entries: dict[bytes, Entry] = {b"": DIRECTORY, b"a": FILE}
    plain, made = Listing(entries), Listing.of(entries)
    entries[b"b"] = FILE
    assert b"b" not in plain
    assert b"b" not in made


def test_a_subtree_is_a_tree_of_its_own() -> None:
    listing = of({b"usr/bin/a": FILE, b"usr/bin.d/b": FILE, b"usr/bin/c/d": Symlink(b"../a")})
    expected = {b"": DIRECTORY, b"a": FILE, b"c": DIRECTORY, b"c/d": Symlink(b"../a")}
    assert dict(listing.below(b"usr/bin")) == expected
    assert dict(listing.below(b"usr/bin/a")) == {b"": FILE}
    assert listing.below(b"") is listing
    with pytest.raises(KeyError):
        listing.below(b"usr/sbin")


def test_a_tree_moved_below_a_path_comes_back_from_there() -> None:
    listing = of({b"a": FILE, b"b/c": Symlink(b"d")})
    moved = listing.at(b"opt/x")
    assert dict(moved)[b"opt"] == DIRECTORY
    assert moved.below(b"opt/x") == listing
    assert listing.at(b"") is listing


def test_sizes_and_files_count_regular_files_alone() -> None:
    listing = of({b"b": FILE, b"a/x": FILE, b"l": Symlink(b"four")})
    assert listing.size == 6
    assert [path for path, _ in listing.files()] == [b"a/x", b"b"]
    assert len(listing) == 5


def test_parents_are_named_nearest_first() -> None:
    assert list(parents(b"a/b/c")) == [b"a/b", b"a", b""]
    assert list(parents(b"")) == []


def test_the_sort_key_compares_component_by_component() -> None:
    paths = [b"a", b"a/b", b"a!", b"a\x01", b"", b"a/b/c", b"a/b!"]
    assert sorted(paths, key=nar_key) == sorted(paths, key=lambda p: p.split(b"/") if p else [])
