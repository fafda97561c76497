# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import pytest

from derive.errors import InputErrors
from derive.patches.model import Create, Delete, FileOperation, Rename, SetExecutable
from derive.patches.parse import parse_patch
from derive.patches.tree import patch_tree
from derive.store.memory import MemoryStore
from derive.store.protocol import read_all
from derive.trees.listing import DIRECTORY, Directory, Entry, File, Listing, Symlink
from derive.trees.pack import Member, NewFile, add_members

CHANGE = b"--- a/d/f\n+++ b/d/f\n@@ -1 +1 @@\n-x\n+y\n"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def tree_of(store: MemoryStore, **members: bytes | Member) -> Listing:
    return add_members(
        store,
        (
            (name.replace("__", "/").encode(), NewFile(False, (member,)) if isinstance(member, bytes) else member)
            for name, member in members.items()
        ),
    )


def contents(store: MemoryStore, tree: Listing) -> Mapping[bytes, bytes]:
    return {path: read_all(store, file) for path, file in tree.files()}


def patched(store: MemoryStore, tree: Listing, *operations: FileOperation) -> Listing:
    return patch_tree(store, tree, (operations,))[0]


def test_only_the_changed_entries_are_new_and_the_tree_can_be_registered(store: MemoryStore) -> None:
    tree = tree_of(store, d__f=b"x\n", d__g=b"keep", l=Symlink(b"d/f"), e=DIRECTORY)
    after, moved = patch_tree(store, tree, (parse_patch("p", CHANGE).operations,))
    assert contents(store, after) == {b"d/f": b"y\n", b"d/g": b"keep"}
    assert {path for path in tree if tree[path] is not after[path]} == {b"d/f"}
    assert moved == ()
    assert store.has_tree(store.add_listing(after))


def test_the_result_does_not_depend_on_where_the_contents_lay(store: MemoryStore) -> None:
    one = tree_of(store, d__f=b"x\n", d__g=b"keep")
    two = tree_of(store, d__g=b"keep", d__f=b"x\n")
    series = (parse_patch("p", CHANGE).operations,)
    assert store.add_listing(patch_tree(store, one, series)[0]) == store.add_listing(patch_tree(store, two, series)[0])


def test_a_mode_change_keeps_the_contents_where_they_are(store: MemoryStore) -> None:
    tree = tree_of(store, f=b"x")
    before, after = tree[b"f"], patched(store, tree, SetExecutable(path=b"f", executable=True))[b"f"]
    assert isinstance(before, File)
    assert isinstance(after, File)
    assert after.executable
    assert after.at == before.at


def kinds(tree: Listing) -> dict[bytes, type[Entry]]:
    return {path: type(entry) for path, entry in tree.items()}


def test_a_folder_left_empty_by_a_deletion_goes_and_one_that_was_empty_stays(store: MemoryStore) -> None:
    tree = tree_of(store, a__b__f=b"x", a__c=DIRECTORY, d__e__f=b"x", d__e__g=DIRECTORY, empty=DIRECTORY)
    after = patched(store, tree, Delete(path=b"a/b/f", contents=b"x"), Delete(path=b"d/e/f", contents=b"x"))
    assert kinds(after) == dict.fromkeys((b"", b"a", b"a/c", b"d", b"d/e", b"d/e/g", b"empty"), Directory)
    assert kinds(patched(store, tree_of(store, a__b__f=b"x"), Delete(path=b"a/b/f", contents=b"x"))) == {b"": Directory}


def test_a_folder_that_a_rename_fills_again_stays(store: MemoryStore) -> None:
    after = patched(store, tree_of(store, a__f=b"x"), Rename(old=b"a/f", new=b"a/g"))
    assert kinds(after) == {b"": Directory, b"a": Directory, b"a/g": File}


def test_new_files_bring_their_folders(store: MemoryStore) -> None:
    after = patched(store, tree_of(store), Create(path=b"n/e/w", contents=b"1", executable=True))
    assert contents(store, after) == {b"n/e/w": b"1"}
    assert kinds(after)[b"n/e"] is Directory


def test_a_path_through_a_link_is_refused(store: MemoryStore) -> None:
    tree = tree_of(store, usr__lib__f=b"x\n", lib=Symlink(b"usr/lib"))
    with pytest.raises(InputErrors) as caught:
        patch_tree(store, tree, (parse_patch("p", CHANGE.replace(b"d/f", b"lib/f")).operations,), names=("x.patch",))
    (problem,) = caught.value.problems()
    assert (problem.where, problem.message) == ("x.patch: lib/f", "does not exist: lib is a symbolic link")
