# SPDX-License-Identifier: Apache-2.0
"""Git's objects are hashed, read and made again as git itself does."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.git.objects import (
    ObjectError,
    TreeEntry,
    commit_id,
    git_tree_id,
    object_id,
    parse_tag,
    parse_tree,
    render_tree,
    tree_ids,
    tree_of,
)
from derive.trees.listing import DIRECTORY, Entry, File, Listing, Symlink
from support.folders import Plain
from support.git_server import Link, Upstream

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def tree_with(files: dict[bytes, bytes | Entry]) -> tuple[Listing, dict[bytes, bytes]]:
    """Return a listing, and the contents of its files."""
    data = {path: entry for path, entry in files.items() if isinstance(entry, bytes)}
    entries: dict[bytes, Entry] = {
        path: File(executable=False, size=len(entry), sha256=sha256(entry)) if isinstance(entry, bytes) else entry
        for path, entry in files.items()
    }
    return Listing.of(entries), data


def test_a_blob_has_the_id_that_git_gives_it() -> None:
    assert object_id("blob", b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert object_id("tree", b"") == EMPTY_TREE


def test_a_commit_names_its_tree_and_has_gits_id(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "r.git")
    commit = upstream.commit({b"a": Plain(b"a")})
    raw = f"{upstream.git('cat-file', 'commit', commit)}\n".encode()
    assert commit_id(raw) == commit
    assert tree_of(raw) == upstream.id(f"{commit}^{{tree}}")


@pytest.mark.parametrize(
    "raw", [b"", b"tree", b"parent " + b"a" * 40 + b"\n", b"tree xyz\n", b"tree " + b"a" * 64 + b"\n"]
)
def test_what_is_no_commit_is_refused(raw: bytes) -> None:
    with pytest.raises(ObjectError):
        tree_of(raw)


def test_a_tag_says_what_it_names() -> None:
    tag = parse_tag(b"object " + b"a" * 40 + b"\ntype commit\ntag v1\ntagger x\n\nobject " + b"b" * 40 + b"\n")
    assert (tag.object, tag.kind, tag.name) == ("a" * 40, "commit", b"v1")
    with pytest.raises(ObjectError, match="without its line type"):
        parse_tag(b"object " + b"a" * 40 + b"\ntag v1\n\ntype commit\n")


def test_a_tree_object_reads_back_as_written() -> None:
    entries = [
        TreeEntry(b"100644", b"a.b", "1" * 40),
        TreeEntry(b"40000", b"a", "2" * 40),
        TreeEntry(b"120000", b"c", "3" * 40),
    ]
    raw = render_tree(reversed(entries))
    assert parse_tree(raw) == tuple(entries), "a folder sorts as if its name ended with a slash"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"100644 a", "ends in the middle"),
        (b"100644 a\0" + b"x" * 19, "ends in the middle"),
        (b"\0" + b"x" * 20, "ends in the middle"),
        (b"100600 a\0" + b"x" * 20, "unknown mode"),
        (b"100644 \0" + b"x" * 20, "no folder can hold"),
        (b"100644 .\0" + b"x" * 20, "no folder can hold"),
        (b"100644 ..\0" + b"x" * 20, "no folder can hold"),
        (b"100644 a/b\0" + b"x" * 20, "no folder can hold"),
        (b"140000 a\0" + b"x" * 20, "unknown mode"),
        ((b"100644 a\0" + b"x" * 20) * 2, "twice"),
        (b"100644 b\0" + b"x" * 20 + b"100644 a\0" + b"x" * 20, "out of order"),
        (b"100644 .gIt\0" + b"x" * 20, "never lays out"),
    ],
)
def test_a_broken_tree_object_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(ObjectError, match=why):
        parse_tree(raw)


def test_a_listing_has_the_tree_id_of_git(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "r.git")
    other = upstream.commit({b"x": Plain(b"")}, branch="other")
    commit = upstream.commit(
        {
            b"a/b": Plain(b"1"),
            b"a.c": Plain(b"2", executable=True),
            b"a-d": Symlink(b"a.c"),
            b"caf\xe9/x": Plain(b"3"),
            b"sub": Link(other),
        }
    )
    listing, data = tree_with(
        {b"a/b": b"1", b"a.c": b"2", b"a-d": Symlink(b"a.c"), b"caf\xe9/x": b"3", b"sub": DIRECTORY}
    )
    listing = Listing.of({**listing, b"a.c": File(executable=True, size=1, sha256=sha256(b"2"))})
    found = git_tree_id(listing, lambda path, _: (data[path],), {b"sub": other})
    assert found == upstream.id(f"{commit}^{{tree}}")


def test_the_contents_of_a_submodule_have_an_id_of_their_own() -> None:
    listing, data = tree_with({b"sub/in/x": b"x", b"y": b"y"})
    inner, _ = tree_with({b"x": b"x"})

    def read(path: bytes, _: File) -> tuple[bytes]:
        return (data.get(path, b"x"),)

    found = tree_ids(listing, read, {b"sub": "a" * 40, b"sub/in": "b" * 40}, {})
    assert found.submodules[b"sub/in"] == git_tree_id(inner, read)
    assert set(found.submodules) == {b"sub", b"sub/in"}


def test_an_empty_tree_has_the_known_id() -> None:
    assert git_tree_id(Listing.of({}), lambda *_: ()) == EMPTY_TREE


def test_modes_of_old_are_written_as_they_were_and_never_mean_something_else() -> None:
    listing, data = tree_with({b"a": b"x"})

    def read(path: bytes, _: File) -> tuple[bytes]:
        return (data[path],)

    blob = hashlib.sha1(b"blob 1\0x").digest()
    expected = object_id("tree", b"100664 a\0" + blob)
    assert tree_ids(listing, read, {}, {b"a": b"100664"}).top == expected
    with pytest.raises(ObjectError, match="means something else"):
        tree_ids(listing, read, {}, {b"a": b"100755"})


def test_a_submodule_that_is_a_file_is_refused() -> None:
    listing, data = tree_with({b"a": b"x"})
    with pytest.raises(ObjectError, match="no folder"):
        tree_ids(listing, lambda path, _: (data[path],), {b"a": "a" * 40}, {})
    with pytest.raises(ObjectError, match="never lays out"):
        tree_ids(tree_with({b".git/x": b"x"})[0], lambda *_: (b"x",), {}, {})
