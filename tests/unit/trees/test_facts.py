# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib

import pytest

from derive.canonical import sha256
from derive.store.memory import MemoryStore
from derive.trees.facts import digest_again, facts_of
from derive.trees.listing import DIRECTORY, Entry, File, Listing, Symlink
from derive.trees.nar import nar_digest


def file(data: bytes, *, executable: bool = False) -> File:
    return File(executable=executable, size=len(data), sha256=sha256(data))


ENTRIES: dict[bytes, Entry] = {
    b"bin/run": file(b"#!\n", executable=True),
    b"caf\xe9": Symlink(b"no%\n"),
    b"empty": DIRECTORY,
}
TREE = Listing.of(ENTRIES)


def test_the_digest_by_facts_is_that_of_a_line_for_each_entry() -> None:
    lines = (
        b"tree-facts/1\n"
        b"folder\0\n"
        b"folder\0bin\n"
        b"program 3 " + sha256(b"#!\n").hex.encode() + b"\0bin/run\n"
        b"link no%25%0A\0caf%E9\n"
        b"folder\0empty\n"
    )
    assert facts_of(TREE).hex == hashlib.sha256(lines).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        {b"a": file(b"2")},
        {b"a": file(b"1", executable=True)},
        {b"b": file(b"1")},
        {b"a": Symlink(b"1")},
        {b"a": file(b"1"), b"b": DIRECTORY},
        {b"a": DIRECTORY},
    ],
)
def test_every_fact_of_a_tree_counts(other: dict[bytes, Entry]) -> None:
    assert facts_of(Listing.of(other)) != facts_of(Listing.of({b"a": file(b"1")}))


def test_a_digest_is_taken_again_in_the_manner_in_which_it_was_taken_and_all_is_read() -> None:
    tree = Listing.of({b"a": file(b"1"), b"b": file(b"22")})
    seen: list[int] = []

    def read(entry: File) -> list[bytes]:
        seen.append(entry.size)
        return [b"1"] if entry.size == 1 else [b"22"]

    nar = nar_digest(tree, lambda _, entry: read(entry))
    assert digest_again(tree, facts_of(tree), read) == facts_of(tree)
    assert digest_again(tree, nar, read) == nar
    assert digest_again(tree, sha256(b"another"), read) == nar
    assert seen == [1, 2] * 4


def test_a_store_in_memory_names_a_tree_by_its_facts_where_it_is_told_to() -> None:
    store = MemoryStore()
    tree = Listing.of({b"empty": DIRECTORY})
    assert store.add_listing(tree, by_facts=True) == facts_of(tree) != store.add_listing(tree)
    assert store.listing(facts_of(tree)) == tree
