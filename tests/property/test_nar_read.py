# SPDX-License-Identifier: Apache-2.0
"""Random trees as NARs, read back; and everything that is not quite one, refused."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from derive.canonical import sha256
from derive.errors import Corrupt
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, Directory, Listing, Symlink
from derive.trees.nar import serialise
from derive.trees.nar_read import locate_nar, read_nar
from derive.trees.pack import add_members
from support.folders import ODD, Plain, Spec, members_of, nix_dump, write_folder

NAMES = st.one_of(
    st.sampled_from([b"a", b"a.", b"a!", b"a-b", b"A", b"b", b"\xff", b" "]),
    st.binary(min_size=1, max_size=9).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b"..")),
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
ENTRIES = st.one_of(
    st.builds(Plain, st.binary(max_size=40), st.booleans()),
    st.builds(Symlink, st.binary(min_size=1, max_size=20).filter(lambda target: b"\0" not in target)),
    st.just(DIRECTORY),
)
SPECS = st.dictionaries(PATHS, ENTRIES, max_size=8)
ROOTS = st.one_of(SPECS, ENTRIES.map(lambda entry: {b"": entry}))
PATIENT = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.filter_too_much])


def tree_of(spec: Spec) -> tuple[MemoryStore, Listing]:
    for path in spec:
        above = path
        while above:
            above = above.rpartition(b"/")[0]
            assume(path == b"" or isinstance(spec.get(above, DIRECTORY), Directory))
    store = MemoryStore()
    return store, add_members(store, members_of(spec))


def nar_of(store: MemoryStore, listing: Listing) -> bytes:
    return b"".join(serialise(listing, lambda _, file: store.read(file)))


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """Yield bytes in pieces of these sizes, then the rest."""
    for size in sizes:
        yield data[:size]
        data = data[size:]
    yield data


@PATIENT
@given(ROOTS, st.lists(st.integers(min_value=0, max_value=50), max_size=20))
def test_what_was_serialised_reads_back_to_the_same_tree_and_bytes(spec: Spec, sizes: list[int]) -> None:
    first, listing = tree_of(spec)
    data = nar_of(first, listing)
    second = MemoryStore()
    again = read_nar(second, cut(data, sizes))
    assert again == listing
    assert nar_of(second, again) == data


@PATIENT
@given(ROOTS)
def test_a_stored_nar_serves_the_files_of_its_tree_from_where_they_lie_in_it(spec: Spec) -> None:
    first, listing = tree_of(spec)
    data = nar_of(first, listing)
    second = MemoryStore()
    with second.blob_writer() as writer:
        writer.write(data)
        blob = writer.commit()
    located = locate_nar([data], blob)
    assert located == listing
    assert second.add_listing(located) == blob
    with pytest.raises(Corrupt, match="not what their name says"):
        locate_nar([data], sha256(b"another"))


@PATIENT
@given(SPECS, st.data())
def test_a_changed_byte_is_refused_or_gives_another_tree_with_exactly_those_bytes(
    spec: Spec, data: st.DataObject
) -> None:
    store, listing = tree_of(spec)
    whole = nar_of(store, listing)
    at = data.draw(st.integers(min_value=0, max_value=len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(min_value=1, max_value=255))
    with pytest.raises(Corrupt):  # whoever knows the digest takes nothing else
        locate_nar([bytes(changed)], sha256(whole))
    other = MemoryStore()
    try:
        found = read_nar(other, [bytes(changed)])
    except Corrupt:
        return
    assert nar_of(other, found) == bytes(changed)
    assert found != listing


@PATIENT
@given(SPECS, st.data())
def test_what_ends_early_or_goes_on_is_refused(spec: Spec, data: st.DataObject) -> None:
    store, listing = tree_of(spec)
    whole = nar_of(store, listing)
    end = data.draw(st.integers(min_value=0, max_value=len(whole) - 1))
    with pytest.raises(Corrupt, match="not the NAR of a tree"):
        read_nar(MemoryStore(), [whole[:end]])
    with pytest.raises(Corrupt, match="bytes follow its end"):
        read_nar(MemoryStore(), [whole, b"", b"\0"])


def test_what_nix_dumps_is_read() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        write_folder(Path(scratch, "tree"), ODD)
        data = nix_dump(Path(scratch, "tree"))
    assert read_nar(MemoryStore(), [data]) == add_members(MemoryStore(), members_of(ODD))
