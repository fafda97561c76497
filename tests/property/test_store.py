# SPDX-License-Identifier: Apache-2.0
"""Random histories: the store on disk answers as the one in memory does, whatever was done before."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, Missing
from derive.store.local import LocalStore
from derive.store.memory import MemoryStore
from derive.store.protocol import Store, read_all
from derive.trees.listing import DIRECTORY, Entry, File, Listing, Location, Symlink
from derive.trees.pack import Member, NewFile, add_members

SHARED_MEMORY = "/dev/shm"
DATA = st.binary(max_size=60)
NAMES = st.sampled_from([b"a", b"a.b", b"b/c", b"b/caf\xe9", b"d/e/f", b"g"])
PARTS = st.one_of(DATA, st.builds(Symlink, st.sampled_from([b"x", b"/y"])), st.just(DIRECTORY))


def members(parts: Mapping[bytes, bytes | Entry]) -> Iterator[tuple[bytes, Member]]:
    for path, part in parts.items():
        yield path, NewFile(executable=False, chunks=[part]) if isinstance(part, bytes) else part


class Histories(RuleBasedStateMachine):
    """Does the same to both stores, and compares every answer."""

    blobs = Bundle("blobs")
    trees = Bundle("trees")

    @initialize()
    def make(self) -> None:
        # In memory where there is such a folder: hundreds of small files are synced.
        self.scratch = tempfile.TemporaryDirectory(dir=SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None)
        self.root = Path(self.scratch.name, "store")
        self.local = LocalStore(self.root).__enter__()
        self.memory = MemoryStore()
        self.known: set[Digest] = set()
        self.gone: set[Digest] = set()

    def teardown(self) -> None:
        self.local.__exit__(None, None, None)
        self.scratch.cleanup()

    @property
    def both(self) -> tuple[Store, Store]:
        return self.local, self.memory

    def agreed(self, answers: list[object]) -> object:
        assert answers[0] == answers[1]
        return answers[0]

    @rule(target=blobs, pieces=st.lists(DATA, max_size=3))
    def add_blob(self, pieces: list[bytes]) -> Digest:
        return self.write(pieces)

    def write(self, pieces: list[bytes]) -> Digest:
        for store in self.both:
            with store.blob_writer() as writer:
                for piece in pieces:
                    writer.write(piece)
                assert writer.commit(sha256(b"".join(pieces))) == sha256(b"".join(pieces))
        self.gone.discard(sha256(b"".join(pieces)))
        return sha256(b"".join(pieces))

    @rule(data=DATA)
    def drop_or_refuse_a_blob(self, data: bytes) -> None:
        for store in self.both:
            had = store.has_blob(sha256(data))
            with store.blob_writer() as writer:
                writer.write(data)
                with pytest.raises(Corrupt):
                    writer.commit(sha256(data + b"."))
            assert store.has_blob(sha256(data)) == had

    @rule(target=trees, parts=st.dictionaries(NAMES, PARTS, max_size=4))
    def add_tree(self, parts: dict[bytes, bytes | Entry]) -> Digest:
        added = []
        for store in self.both:
            try:
                listing = add_members(store, members(parts))
            except ValueError:  # something below a link or a file
                listing = Listing.of({})
            self.gone -= {file.at.blob for _, file in listing.files() if file.at is not None}
            added.append(store.add_listing(listing))
        self.known.add(added[0])
        return self.agreed(list(added))  # type: ignore[return-value]

    @rule(target=trees, text=DATA, level=st.integers(0, 9))
    def add_deflated_tree(self, text: bytes, level: int) -> Digest:
        stored = zlib.compress(text, level, wbits=-15)
        blob = self.write([b"head", stored])
        file = File(executable=True, size=len(text), sha256=sha256(text), at=Location(blob, 4, len(stored), "deflate"))
        added = [store.add_listing(Listing.of({b"a": file})) for store in self.both]
        self.known.add(added[0])
        return self.agreed(list(added))  # type: ignore[return-value]

    @rule(blob=blobs, offset=st.integers(0, 70), size=st.none() | st.integers(0, 70))
    def read_a_slice(self, blob: Digest, offset: int, size: int | None) -> None:
        if blob in self.gone:
            return
        answers: list[object] = []
        for store in self.both:
            try:
                answers.append(b"".join(store.read_blob(blob, offset, size)))
            except Corrupt:
                answers.append("ends early")
        self.agreed(answers)

    @rule(tree=trees)
    def read_a_tree(self, tree: Digest) -> None:
        if not self.local.has_tree(tree):
            return
        read: list[object] = []
        for store in self.both:
            listing = store.listing(tree)
            read.append((dict(listing), [read_all(store, file) for _, file in listing.files()]))
        self.agreed(read)

    @rule(blob=consumes(blobs))
    def lose_a_blob_on_disk(self, blob: Digest) -> None:
        if self.local.has_blob(blob):
            self.local.blob_path(blob).unlink()
        self.gone.add(blob)
        with pytest.raises(Missing):
            self.local.blob_path(blob)

    @rule()
    def open_again(self) -> None:
        self.local.__exit__(None, None, None)
        assert list((self.root / "tmp").iterdir()) == []
        self.local = LocalStore(self.root).__enter__()

    @invariant()
    def a_tree_is_there_when_all_its_blobs_are(self) -> None:
        for tree in self.known:
            assert self.memory.has_tree(tree)
            blobs = {file.at.blob for _, file in self.local.listing(tree).files() if file.at is not None}
            assert self.local.has_tree(tree) == (not blobs & self.gone)


Histories.TestCase.settings = settings(
    max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestHistories = Histories.TestCase
