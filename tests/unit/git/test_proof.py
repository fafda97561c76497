# SPDX-License-Identifier: Apache-2.0
"""A proof holds for its own tree alone, and every change to either is found without a repository."""

from __future__ import annotations

import dataclasses

import pytest

from derive.canonical import encode, sha256
from derive.errors import Corrupt
from derive.git.objects import PLAIN, SUBMODULE, TreeEntry, commit_id, object_id, render_tree
from derive.git.proof import GitProof, check_proof, parse_proof
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, File, Listing, Location, Symlink
from derive.trees.pack import NewFile, add_members

SUB_TREE = render_tree([TreeEntry(PLAIN, b"x", object_id("blob", b"inner\n"))])
SUB = b"tree " + object_id("tree", SUB_TREE).encode() + b"\nauthor A\n\nthe submodule\n"
UNFETCHED = "e" * 40
TREE = render_tree(
    [
        TreeEntry(b"100664", b"old", object_id("blob", b"old\n")),
        TreeEntry(PLAIN, b"caf\xe9", object_id("blob", b"accent\n")),
        TreeEntry(b"120000", b"link", object_id("blob", b"old")),
        TreeEntry(SUBMODULE, b"sub", commit_id(SUB)),
        TreeEntry(SUBMODULE, b"empty", UNFETCHED),
    ]
)
COMMIT = b"tree " + object_id("tree", TREE).encode() + b"\nauthor A\n\na commit with caf\xe9\n"
ID = commit_id(COMMIT)
TAG = b"object " + ID.encode() + b"\ntype commit\ntag v1\n\nmessage\n"
OUTER = b"object " + object_id("tag", TAG).encode() + b"\ntype tag\ntag v2\n\nmessage\n"

PROOF = GitProof(
    commit=COMMIT,
    tags=(OUTER, TAG),
    links={b"sub": commit_id(SUB), b"empty": UNFETCHED},
    submodules={b"sub": SUB},
    modes={b"old": b"100664"},
)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def listing(store: MemoryStore) -> Listing:
    return add_members(
        store,
        [
            (b"old", NewFile(executable=False, chunks=[b"old\n"])),
            (b"caf\xe9", NewFile(executable=False, chunks=[b"accent\n"])),
            (b"link", Symlink(b"old")),
            (b"sub/x", NewFile(executable=False, chunks=[b"inner\n"])),
            (b"empty", DIRECTORY),
        ],
    )


def test_a_proof_holds_for_its_tree(store: MemoryStore, listing: Listing) -> None:
    check_proof(store, listing, PROOF.encoded(), ID)


def test_a_proof_reads_back_as_written() -> None:
    assert parse_proof(PROOF.encoded()) == PROOF
    assert parse_proof(PROOF.encoded()).encoded() == PROOF.encoded()


def changed(store: MemoryStore, data: bytes, *, executable: bool = False) -> File:
    with store.blob_writer() as writer:
        writer.write(data)
        blob = writer.commit()
    return File(executable, len(data), sha256(data), Location(blob, 0, len(data)))


@pytest.mark.parametrize("case", ["contents", "bit", "link", "name", "added", "removed", "inner", "filled", "type"])
def test_every_change_to_the_tree_is_found(case: str, store: MemoryStore, listing: Listing) -> None:
    entries = dict(listing)
    match case:
        case "contents":
            entries[b"caf\xe9"] = changed(store, b"accenT\n")
        case "bit":
            entries[b"old"] = changed(store, b"old\n", executable=True)
        case "link":
            entries[b"link"] = Symlink(b"new")
        case "name":
            entries[b"cafe"] = entries.pop(b"caf\xe9")
        case "added":
            entries[b"more"] = changed(store, b"")
        case "removed":
            del entries[b"old"]
        case "inner":
            entries[b"sub/x"] = changed(store, b"other\n")
        case "filled":
            entries[b"empty/x"] = changed(store, b"")
        case _:
            entries[b"link"] = changed(store, b"old")
    with pytest.raises(Corrupt):
        check_proof(store, Listing.of(entries), PROOF.encoded(), ID)


@pytest.mark.parametrize(
    "change",
    [
        {"commit": COMMIT.replace(b"author", b"Author")},
        {"commit": b"no commit"},
        {"tags": (TAG, OUTER)},
        {"tags": (OUTER,)},
        {"tags": (b"no tag",)},
        {"links": {b"sub": commit_id(SUB)}},
        {"links": {**PROOF.links, b"caf\xe9": UNFETCHED}},
        {"links": {**PROOF.links, b"empty": "f" * 40}},
        {"links": {**PROOF.links, b"absent": "f" * 40}},
        {"submodules": {}},
        {"submodules": {b"sub": SUB + b"\n"}},
        {"submodules": {b"sub": SUB, b"old": SUB}},
        {"modes": {}},
        {"modes": {b"old": b"100755"}},
        {"modes": {b"old": b"100664", b"caf\xe9": b"100755"}},
    ],
)
def test_every_change_to_the_proof_is_found(change: dict[str, object], store: MemoryStore, listing: Listing) -> None:
    wrong = dataclasses.replace(PROOF, **change)  # type: ignore[arg-type]
    with pytest.raises(Corrupt):
        check_proof(store, listing, wrong.encoded(), ID)


def test_another_commit_of_the_same_tree_is_another_commit(store: MemoryStore, listing: Listing) -> None:
    other = dataclasses.replace(PROOF, commit=COMMIT + b"more\n", tags=())
    check_proof(store, listing, other.encoded(), commit_id(COMMIT + b"more\n"))
    with pytest.raises(Corrupt, match="another commit") as caught:
        check_proof(store, listing, other.encoded(), ID)
    assert caught.value.detail == (f"expected  {ID}", f"got       {commit_id(COMMIT + b'more' + bytes([10]))}")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        encode({"derive": "git-proof/2"}),
        encode({"derive": "git-proof/1", "commit": ""}),
        PROOF.encoded().replace(b'"tags":[', b'"tags":{"a":[').replace(b'],"', b']},"', 1),
        PROOF.encoded().replace(b'"100664"', b"1"),
        PROOF.encoded().replace(b"caf%E9", b"caf%e9"),
        PROOF.encoded().replace(b'"100664"', '"é"'.encode()),
    ],
)
def test_what_is_no_proof_is_refused(data: bytes, store: MemoryStore, listing: Listing) -> None:
    with pytest.raises(Corrupt):
        check_proof(store, listing, data, ID)
