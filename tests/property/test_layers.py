# SPDX-License-Identifier: Apache-2.0
"""Whatever the tree: it reads back from its tar, and only its facts decide the bytes."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
from io import BytesIO
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.canonical import sha256
from derive.errors import InputErrors
from derive.images.carry import carry_map
from derive.images.encoding import CARRIED, SEGMENT, Encoding
from derive.images.layer import write_layer
from derive.images.members import Carried, segments
from derive.images.modes import ModeTable, Rule
from derive.images.tar import headers
from derive.store.memory import MemoryStore
from derive.trees.compose import compose
from derive.trees.diff import diff, first_difference
from derive.trees.listing import DIRECTORY, Directory, File, Listing, ListingError, Symlink
from derive.trees.pack import NewFile, add_members
from support.carrying import wheel
from support.layers import archive, blob, raw_name, tree

Drawn: TypeAlias = dict[bytes, "tuple[bytes, bool] | Symlink | Directory"]

NAMES = st.one_of(
    st.sampled_from([b"a", b"b", b"a.", b"a-", b"lib", "é".encode(), b"\xff", b"n" * 99, b"n" * 101, b"x" * 160]),
    st.binary(min_size=1, max_size=8).filter(lambda name: not {0, 0x2F} & set(name) and name not in (b".", b"..")),
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
CONTENTS = st.one_of(st.binary(max_size=20), st.integers(500, 1100).map(bytes))
TARGETS = st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from([b"t" * 100, b"t" * 101])).filter(
    lambda target: 0 not in target
)
ENTRIES = st.one_of(
    st.builds(lambda data, executable: (data, executable), CONTENTS, st.booleans()),
    TARGETS.map(Symlink),
    st.just(DIRECTORY),
)
TREES = st.dictionaries(PATHS, ENTRIES, max_size=12)


def built(store: MemoryStore, tree: Drawn) -> Listing:
    """Add what of the drawn entries makes a tree: the ones below a file or link are left out."""
    kept: Drawn = {}
    for path in sorted(tree):
        try:
            Listing.of({**dict.fromkeys(kept, DIRECTORY), path: DIRECTORY})
            above = [other for other in kept if path.startswith(other + b"/")]
        except ListingError:
            continue
        if all(isinstance(kept[other], Directory) for other in above):
            kept[path] = tree[path]
    return add_members(
        store,
        ((path, NewFile(entry[1], [entry[0]]) if isinstance(entry, tuple) else entry) for path, entry in kept.items()),
    )


@given(tree=TREES)
def test_a_tar_reads_back_as_its_tree(tree: Drawn) -> None:
    store = MemoryStore()
    listing = built(store, tree)
    data = archive(store, listing)
    assert len(data) % 512 == 0
    found: dict[bytes, File | Symlink | Directory] = {}
    with tarfile.open(fileobj=BytesIO(data), errors="surrogateescape", encoding="utf-8") as tar:
        for member in tar:
            name = raw_name(member)
            if member.isdir():
                found[name] = DIRECTORY
            elif member.issym():
                found[name] = Symlink(member.linkname.encode("utf-8", "surrogateescape"))
            else:
                entry = listing[name]
                assert isinstance(entry, File)
                opened = tar.extractfile(member)
                assert opened is not None
                assert opened.read() == b"".join(store.read(entry))
                found[name] = File(executable=bool(member.mode & 0o100), size=member.size, sha256=entry.sha256)
    assert list(found.items()) == [(path, entry) for path, entry in listing.items() if path]


@given(tree=TREES, jobs=st.integers(1, 4))
@settings(max_examples=50)
def test_a_layer_unpacks_to_the_tar_and_its_bytes_depend_on_facts_alone(tree: Drawn, jobs: int) -> None:
    store = MemoryStore()
    listing = built(store, tree)
    try:
        layer = write_layer(store, listing, ModeTable(), Encoding(), jobs=jobs)
    except InputErrors:
        assert any(b".wh." in path for path in listing)
        return
    assert gzip.decompress(blob(store, layer.blob)) == archive(store, listing)
    elsewhere = MemoryStore()
    again = built(elsewhere, dict(reversed(tree.items())))
    assert write_layer(elsewhere, again, ModeTable(), Encoding(), jobs=1) == layer


@given(one=TREES, two=TREES)
def test_trees_differ_exactly_when_their_tars_do(one: Drawn, two: Drawn) -> None:
    store = MemoryStore()
    left, right = built(store, one), built(store, two)
    same = archive(store, left) == archive(store, right)
    assert same is (diff(left, right) == ()) is (left == right)


@given(sizes=st.lists(st.sampled_from([0, 1, 511, 300_000, 524_287, 524_288, 1 << 20, 1_100_000]), max_size=8))
@settings(max_examples=25, deadline=None)
def test_segments_are_bounded_and_join_to_the_tar(sizes: list[int]) -> None:
    store = MemoryStore()
    listing = add_members(store, ((b"%d" % n, NewFile(False, [bytes(size)])) for n, size in enumerate(sizes)))
    cut = segments(headers(listing.items(), ModeTable()), store.read)
    parts = [part for part in cut if isinstance(part, bytes)]
    assert all(0 < len(part) <= SEGMENT for part in parts)
    assert b"".join(parts) == archive(store, listing)


@given(
    rules=st.dictionaries(
        PATHS, st.tuples(st.one_of(st.none(), st.integers(0, 0o1777)), st.integers(0, 99), st.integers(0, 99))
    )
)
def test_a_mode_table_survives_its_document(rules: dict[bytes, tuple[int | None, int, int]]) -> None:
    given_rules = [Rule(path=path, mode=mode, uid=uid, gid=gid) for path, (mode, uid, gid) in rules.items()]
    table = ModeTable.of(given_rules)
    assert ModeTable.from_document(table.to_document()) == table == ModeTable.of(reversed(given_rules))


@given(one=TREES, two=TREES, three=TREES)
def test_a_union_holds_every_part_whatever_their_order(
    one: Drawn,
    two: Drawn,
    three: Drawn,
) -> None:
    store = MemoryStore()
    parts = [(name, built(store, tree)) for name, tree in (("one", one), ("two", two), ("three", three))]
    contested = {
        path
        for _, left in parts
        for _, right in parts
        for path in left.keys() & right.keys()
        if left[path] != right[path]
    }
    try:
        whole = compose(parts, {})
    except InputErrors:
        assert contested
        return
    assert not contested
    assert compose(parts[::-1], {}) == whole == Listing.of(dict(whole))
    assert set(whole) == {path for _, part in parts for path in part}
    assert all(whole[path] == entry for _, part in parts for path, entry in part.items())


@given(
    before=st.binary(max_size=60), after=st.binary(max_size=60), common=st.binary(max_size=60), step=st.integers(1, 9)
)
def test_the_first_difference_is_the_length_of_the_common_beginning(
    before: bytes, after: bytes, common: bytes, step: int
) -> None:
    left, right = common + before, common + after
    expected = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    if expected is None and len(left) != len(right):
        expected = min(len(left), len(right))
    chunks = [left[at : at + step] for at in range(0, len(left), step)]
    assert first_difference(chunks, [right]) == expected


LONG = st.integers(0, 3).map(lambda seed: hashlib.shake_128(b"%d" % seed).digest(CARRIED + seed))
WHEELS = st.lists(
    st.dictionaries(
        st.sampled_from([b"a", b"lib/b", b"lib/c", b"n" * 101, b"z/y/x"]),
        st.tuples(st.one_of(CONTENTS, LONG), st.booleans()),
        min_size=1,
    ),
    min_size=1,
    max_size=3,
)
"""Wheels of files, each with whether it is patched once it is unpacked."""


@given(drawn=WHEELS, jobs=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_a_layer_that_carries_unpacks_to_the_same_tar_and_carries_no_patched_file(
    drawn: list[dict[bytes, tuple[bytes, bool]]], jobs: int
) -> None:
    store = MemoryStore()
    wheels = [wheel(store, {path: data for path, (data, _) in one.items()}, f"{n}.whl") for n, one in enumerate(drawn)]
    installed = {
        b"%d/%b" % (n, path): data + b"#" * patched
        for n, one in enumerate(drawn)
        for path, (data, patched) in one.items()
    }
    listing = tree(store, installed)
    carrying = Encoding(name="gzip-members/2")
    layer = write_layer(store, listing, ModeTable(), carrying, wheels=wheels, jobs=jobs)
    assert gzip.decompress(blob(store, layer.blob)) == archive(store, listing)
    assert layer.diff_id == write_layer(store, listing, ModeTable(), Encoding()).diff_id
    # One content has one stream in all of these wheels, so that their order says nothing.
    assert layer == write_layer(store, listing, ModeTable(), carrying, wheels=wheels[::-1], jobs=1)
    carry = carry_map(wheels, CARRIED, store.read_blob)
    cut = segments(headers(listing.items(), ModeTable()), store.read, carry)
    carried = {part.file.sha256 for part in cut if isinstance(part, Carried)}
    in_wheels = {sha256(data) for one in drawn for data, _ in one.values() if len(data) >= CARRIED}
    assert carried == {entry.sha256 for _, entry in listing.files()} & in_wheels
