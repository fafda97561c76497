# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import subprocess
import zlib
from collections.abc import Iterable

import pytest

from derive.canonical import sha256
from derive.errors import Corrupt
from derive.images.compressor import MEMBER_HEADER, member
from derive.images.encoding import SEGMENT
from derive.images.members import LARGE, Carried, members, segments
from derive.images.modes import ModeTable
from derive.images.tar import END, headers
from derive.store.memory import MemoryStore
from derive.store.protocol import Store
from derive.trees.listing import File, Listing
from support.carrying import streams
from support.layers import FIELD, archive, tree
from support.require import skip_or_fail


def noise(seed: str, size: int) -> bytes:
    return hashlib.shake_128(seed.encode()).digest(size)


def cut(store: Store, listing: Listing) -> list[bytes]:
    return uncarried(segments(headers(listing.items(), ModeTable()), store.read))


def uncarried(cut: Iterable[bytes | Carried]) -> list[bytes]:
    """The segments of a tree of which nothing is carried."""
    return [part for part in cut if isinstance(part, bytes)]


def stored(parts: Iterable[bytes], *, level: int = 6, jobs: int = 2) -> list[bytes]:
    """The members of segments."""
    store = MemoryStore()
    return [b"".join(piece.stored) for piece in members(parts, level, store.read_blob, jobs=jobs)]


def test_segments_joined_are_the_tar() -> None:
    store = MemoryStore()
    listing = tree(store, FIELD)
    assert b"".join(cut(store, listing)) == archive(store, listing)


def test_an_empty_tree_is_one_segment() -> None:
    assert cut(MemoryStore(), Listing.of({})) == [END]


def test_no_segment_is_larger_than_the_limit() -> None:
    store = MemoryStore()
    sizes = (0, 1, 511, 512, 1000, LARGE - 1, LARGE, LARGE + 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT, 700_000)
    listing = tree(store, {b"%02d-%d" % (n, size): noise(str(n), size) for n, size in enumerate(sizes * 2)})
    parts = cut(store, listing)
    assert max(map(len, parts)) <= SEGMENT
    assert b"".join(parts) == archive(store, listing)


def test_a_large_files_segments_are_its_own_steps_whatever_stands_beside_it() -> None:
    large = noise("large", 2 * SEGMENT + 1000)
    steps = [large[:SEGMENT], large[SEGMENT : 2 * SEGMENT], large[2 * SEGMENT :] + bytes(24)]
    for before in ({}, {b"a": b"x" * 3}, {b"a": noise("a", 400_000), b"b": noise("b", LARGE)}):
        store = MemoryStore()
        parts = cut(store, tree(store, {**before, b"m": large, b"z": b"after"}))
        at = parts.index(steps[0])
        assert parts[at : at + 3] == steps


def test_large_files_read_in_odd_chunks_are_cut_alike() -> None:
    data = noise("large", 2 * SEGMENT + 77)
    file = File(executable=False, size=len(data), sha256=sha256(data))
    listing = Listing.of({b"m": file})

    def read(step: int) -> list[bytes]:
        chunks = [data[at : at + step] for at in range(0, len(data), step)]
        return uncarried(segments(headers(listing.items(), ModeTable()), lambda _: chunks))

    assert read(1000) == read(SEGMENT) == read(len(data))


def test_a_small_file_and_its_header_lie_in_one_segment() -> None:
    store = MemoryStore()
    given = {b"%03d" % n: noise(str(n), 90_000) for n in range(60)}
    parts = cut(store, tree(store, given))
    assert len(parts) > 5
    for path, data in given.items():
        assert sum(path.ljust(100, b"\0") in part and data in part for part in parts) == 1


def test_a_changed_file_leaves_most_segments_as_they_were() -> None:
    store = MemoryStore()
    given = {b"dir%d/%04d" % (n // 100, n): noise(str(n), 3000 + n) for n in range(1500)}
    before = cut(store, tree(store, given))
    after = cut(store, tree(store, {**given, b"dir3/0333x": noise("new", 5000)}))
    assert len(before) > 20
    assert len(set(after) - set(before)) <= 4


def test_a_file_of_another_size_than_listed_is_refused() -> None:
    for size in (10, LARGE):
        listing = Listing.of({b"a": File(executable=False, size=size, sha256=sha256(b""))})
        with pytest.raises(Corrupt, match="the contents of a have another size"):
            list(segments(headers(listing.items(), ModeTable()), lambda _: [b"short"]))


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_members_come_in_order_whatever_the_number_of_workers(jobs: int) -> None:
    parts = [noise(str(n), (n * 7919) % 50_000) for n in range(40)]
    assert stored(parts, jobs=jobs) == [member(part, 6) for part in parts]


def test_gzip_reads_a_layer_of_many_members() -> None:
    if shutil.which("gzip") is None:
        skip_or_fail("gzip is not installed")
    store = MemoryStore()
    listing = tree(store, {**FIELD, b"large": noise("l", 2 * SEGMENT), b"z": b"z" * 1000})
    blob = b"".join(stored(cut(store, listing)))
    assert blob.count(MEMBER_HEADER) >= 4
    subprocess.run(["gzip", "-t"], input=blob, check=True)
    out = subprocess.run(["gzip", "-dc"], input=blob, check=True, capture_output=True).stdout
    assert out == archive(store, listing)
    assert gzip.GzipFile(fileobj=io.BytesIO(blob)).read() == out


CARRIED = {b"carried": noise("c", 70_001)}


def around(given: dict[bytes, bytes]) -> list[bytes | File]:
    """The segments of a tree in which that file is carried, standing for its contents."""
    store = MemoryStore()
    listing = tree(store, {**given, **CARRIED})
    carry = streams(store, CARRIED)
    parts = segments(headers(listing.items(), ModeTable()), store.read, carry)
    found = [part.file if isinstance(part, Carried) else part for part in parts]
    whole = b"".join(CARRIED[b"carried"] if isinstance(part, File) else part for part in found)
    assert whole == archive(store, listing)
    return found


def test_the_contents_of_a_carried_file_are_a_segment_of_their_own_and_its_padding_goes_with_what_follows() -> None:
    before, contents, after = around({b"a": b"x", b"d": b"y"})
    assert isinstance(contents, File)
    assert isinstance(before, bytes)
    assert len(before) == 512 * 3
    assert isinstance(after, bytes)
    assert after[: -70_001 % 512] == bytes(-70_001 % 512)
    assert after[-70_001 % 512 :].startswith(b"d\0")


def test_a_carried_file_that_ends_the_tar_leaves_its_padding_to_the_end() -> None:
    _, _, last = around({})
    assert last == bytes(-70_001 % 512) + END


def test_no_name_makes_a_segment_of_padding_alone() -> None:
    cutting = [name for name in (b"d%d" % n for n in range(500)) if zlib.crc32(name) % 64 == 0]
    for name in cutting:
        assert len(around({name: b"y"})) == 3


def test_a_large_file_after_a_carried_one_is_cut_from_its_own_start() -> None:
    large = noise("large", LARGE)
    parts = around({b"d": large})
    assert parts[-2] == large
    assert len(parts) == 5


def test_the_contents_of_a_carried_file_are_not_read() -> None:
    store = MemoryStore()
    listing = tree(store, CARRIED)
    carry = streams(store, CARRIED)

    def read(_: File) -> list[bytes]:
        raise AssertionError("read")

    assert len(list(segments(headers(listing.items(), ModeTable()), read, carry))) == 3
