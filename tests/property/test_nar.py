# SPDX-License-Identifier: Apache-2.0
"""Random folders on disk: the tree digest is the hash that Nix's own tools print."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from derive.canonical import sha256
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, Directory, Listing, ListingError, Symlink
from derive.trees.nar import serialise
from derive.trees.pack import add_members
from derive.trees.scan import scan_folder
from support.folders import Plain, Spec, members_of, nix_dump, nix_hash, read_folder, with_parents, write_folder

NAMES = st.one_of(
    st.sampled_from([b"a", b"a.", b"a!", b"a-b", b"A", b"b", "é".encode(), b"\xff", b"\x01", b" "]),
    st.binary(min_size=1, max_size=8).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b"..")),
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
TARGETS = st.binary(min_size=1, max_size=20).filter(lambda target: b"\0" not in target)
ENTRIES = st.one_of(
    st.builds(Plain, st.binary(max_size=40), st.booleans()),
    st.builds(Symlink, TARGETS),
    st.just(DIRECTORY),
)
SPECS = st.dictionaries(PATHS, ENTRIES, max_size=12)


def possible(spec: Spec) -> Spec:
    """Drop the examples in which something lies below a file or a link."""
    for path in spec:
        above = path
        while above := above.rpartition(b"/")[0]:
            assume(isinstance(spec.get(above, DIRECTORY), Directory))
    return spec


def nar(spec: Spec) -> bytes:
    store = MemoryStore()
    return b"".join(serialise(add_members(store, members_of(spec)), lambda _, file: store.read(file)))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(SPECS)
def test_a_random_folder_is_what_nix_makes_of_it(spec: Spec) -> None:
    possible(spec)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "tree")
        write_folder(folder, spec)
        data = nar(spec)
        assert data == nix_dump(folder)
        assert sha256(data).hex == nix_hash(folder)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(SPECS)
@example({b"a": Symlink(b"b//./c/")})
def test_scanning_a_folder_gives_the_tree_that_was_written(spec: Spec) -> None:
    possible(spec)
    store = MemoryStore()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "tree")
        write_folder(folder, spec)
        assert read_folder(folder) == with_parents(spec)
        with scan_folder(folder) as scan:
            scanned = add_members(store, scan.members())
    assert scanned == add_members(MemoryStore(), members_of(spec))


@settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(SPECS, st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_count(spec: Spec, random: object) -> None:
    possible(spec)
    pairs = list(spec.items())
    random.shuffle(pairs)  # type: ignore[attr-defined]
    assert nar(dict(pairs)) == nar(spec)


@settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(SPECS, SPECS)
def test_different_trees_have_different_bytes(one: Spec, other: Spec) -> None:
    possible(one)
    possible(other)
    assert (nar(one) == nar(other)) == (with_parents(one) == with_parents(other))


@settings(deadline=None)
@given(SPECS)
def test_a_listing_has_every_parent_once_before_its_children_or_is_refused(spec: Spec) -> None:
    try:
        listing = add_members(MemoryStore(), members_of(spec))
    except ListingError:
        return
    seen: set[bytes] = set()
    for path in listing:
        assert path not in seen
        assert path == b"" or path.rpartition(b"/")[0] in seen
        seen.add(path)
    assert list(listing) == sorted(listing, key=lambda p: p.split(b"/") if p else [])
    assert Listing.of(dict(listing)) == listing
