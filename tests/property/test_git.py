# SPDX-License-Identifier: Apache-2.0
"""Git's objects over generated trees: made, read and proved, and every difference told."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from derive.canonical import sha256
from derive.errors import Corrupt
from derive.git.contents import walk
from derive.git.objects import (
    FOLDER,
    KNOWN_MODES,
    LINK,
    PLAIN,
    PROGRAM,
    TreeEntry,
    commit_id,
    object_id,
    parse_tree,
    render_tree,
    tree_ids,
)
from derive.git.proof import GitProof, check_proof, parse_proof
from derive.store.memory import MemoryStore
from derive.trees.listing import Directory, File, Listing, ListingError, Symlink
from derive.trees.pack import Member, NewFile, add_members

NAMES = st.binary(min_size=1, max_size=4).filter(
    lambda name: name not in (b".", b"..") and name.lower() != b".git" and b"/" not in name and b"\0" not in name
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
FILES = st.builds(lambda data, executable: NewFile(executable, [data]), st.binary(max_size=8), st.booleans())
LINKS = st.binary(min_size=1, max_size=6).filter(lambda target: b"\0" not in target).map(Symlink)
SPECS = st.dictionaries(PATHS, st.one_of(FILES, LINKS), max_size=8)


def planted(spec: dict[bytes, Member]) -> tuple[MemoryStore, Listing]:
    store = MemoryStore()
    try:
        return store, add_members(store, spec.items())
    except ListingError:
        assume(condition=False)
        raise


def objects_of(store: MemoryStore, listing: Listing) -> tuple[str, dict[str, bytes]]:
    """Return the top tree's id and every tree object, made folder by folder, another way than the code under test."""
    made: dict[str, bytes] = {}

    def folder(path: bytes) -> str:
        entries = []
        for below, entry in listing.items():
            parent, _, name = below.rpartition(b"/")
            if not below or parent != path:
                continue
            match entry:
                case Directory():
                    entries.append(TreeEntry(FOLDER, name, folder(below)))
                case Symlink(target):
                    entries.append(TreeEntry(LINK, name, object_id("blob", target)))
                case File():
                    mode = PROGRAM if entry.executable else PLAIN
                    entries.append(TreeEntry(mode, name, object_id("blob", b"".join(store.read(entry)))))
        raw = render_tree(entries)
        made[object_id("tree", raw)] = raw
        return object_id("tree", raw)

    return folder(b""), made


@given(SPECS)
def test_a_tree_id_is_that_of_its_objects_and_they_read_back(spec: dict[bytes, Member]) -> None:
    store, listing = planted(spec)
    top, made = objects_of(store, listing)
    assert tree_ids(listing, lambda _, file: store.read(file), {}, {}).top == top
    contents = walk(top, lambda names: (made[name] for name in names), "here")
    assert [leaf.path for leaf in contents.leaves] == [
        path for path, entry in listing.items() if not isinstance(entry, Directory)
    ]
    for raw in made.values():
        assert render_tree(parse_tree(raw)) == raw


@given(SPECS, st.data())
def test_a_proof_holds_for_one_tree_alone(spec: dict[bytes, Member], data: st.DataObject) -> None:
    store, listing = planted(spec)
    top, _ = objects_of(store, listing)
    raw = b"tree %s\n\n" % top.encode()
    proof = GitProof(commit=raw)
    check_proof(store, listing, proof.encoded(), commit_id(raw))
    assert parse_proof(proof.encoded()) == proof
    files = [path for path, _ in listing.files()]
    assume(condition=bool(files))
    path = data.draw(st.sampled_from(files))
    file = listing[path]
    assert isinstance(file, File)
    with store.blob_writer() as writer:
        writer.write(b"another")
        blob = writer.commit()
    assert file.at is not None
    other = dataclasses.replace(
        file, size=7, sha256=sha256(b"another"), at=dataclasses.replace(file.at, blob=blob, offset=0, size=7)
    )
    for changed in (
        {**listing, path: other},
        {**listing, path: dataclasses.replace(file, executable=not file.executable)},
    ):
        with pytest.raises(Corrupt):
            check_proof(store, Listing.of(changed), proof.encoded(), commit_id(raw))


@settings(max_examples=200)
@given(st.binary(max_size=120))
def test_reading_any_bytes_as_a_tree_gives_a_tree_or_one_error(raw: bytes) -> None:
    try:
        entries = parse_tree(raw)
    except ValueError:
        return
    assert all(int(entry.mode, 8) in KNOWN_MODES for entry in entries)
    assert render_tree(entries) == raw
