# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

from derive.canonical import sha256
from derive.store.recent import RecentListings
from derive.trees.listing import DIRECTORY, Listing

A, B, C = (sha256(name) for name in (b"a", b"b", b"c"))


def tree(size: int) -> Listing:
    return Listing.of({b"%d" % number: DIRECTORY for number in range(size - 1)})


def facts(path: Path, text: str) -> os.stat_result:
    path.write_text(text)
    return path.stat()


def test_a_listing_is_given_again_while_its_file_is_the_one_that_was_read(tmp_path: Path) -> None:
    recent, first = RecentListings(), facts(tmp_path / "a", "1")
    listing = recent.put(A, first, tree(3))
    assert recent.get(A, first) is listing
    assert recent.get(A, facts(tmp_path / "a", "22")) is None
    assert recent.get(B, first) is None


def test_those_that_were_used_longest_ago_go_first(tmp_path: Path) -> None:
    recent, one = RecentListings(most=6), facts(tmp_path / "a", "1")
    for digest in (A, B):
        recent.put(digest, one, tree(3))
    recent.get(A, one)
    recent.put(C, one, tree(3))
    assert [recent.get(digest, one) is not None for digest in (A, B, C)] == [True, False, True]


def test_a_listing_that_is_larger_than_all_that_is_kept_is_not_kept(tmp_path: Path) -> None:
    recent, one = RecentListings(most=2), facts(tmp_path / "a", "1")
    assert len(recent.put(A, one, tree(5))) == 5
    assert recent.get(A, one) is None


def test_one_listing_put_twice_counts_once(tmp_path: Path) -> None:
    recent, one = RecentListings(most=6), facts(tmp_path / "a", "1")
    recent.put(A, one, tree(3))
    recent.put(A, one, tree(3))
    recent.put(B, one, tree(3))
    assert recent.get(A, one) is not None
