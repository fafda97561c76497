# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator

import pytest

from derive.canonical import encode, sha256
from derive.errors import Corrupt, HostRefuses
from derive.images import members as module
from derive.images.members import (
    LARGE,
    MEMBER_HEADER,
    SEGMENT,
    Encoding,
    check_compressor,
    known_text,
    member,
    members,
    segments,
)
from derive.images.modes import ModeTable
from derive.images.tar import END, headers
from derive.store.memory import MemoryStore
from derive.store.protocol import Store
from derive.trees.listing import File, Listing
from support.layers import FIELD, archive, tree
from support.require import skip_or_fail


def noise(seed: str, size: int) -> bytes:
    return hashlib.shake_128(seed.encode()).digest(size)


def cut(store: Store, listing: Listing) -> list[bytes]:
    return list(segments(headers(listing.items(), ModeTable()), store.read))


def test_a4_the_header_of_a_member_is_ten_fixed_bytes() -> None:
    assert member(b"", 6)[:10] == MEMBER_HEADER == bytes([31, 139, 8, 0, 0, 0, 0, 0, 0, 255])
    assert gzip.decompress(member(b"", 6)) == b""


def test_a_member_ends_with_crc_and_size() -> None:
    data = noise("a", 100_000)
    assert member(data, 6)[-8:] == zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")


@pytest.mark.parametrize("level", [1, 6, 12])
def test_a_member_unpacks_to_its_segment(level: int) -> None:
    assert gzip.decompress(member(known_text(), level)) == known_text()


def test_the_known_text_is_what_it_was() -> None:
    assert len(known_text()) == 65536
    assert sha256(known_text()).hex == "fa785c13b3c5a0b53cbfe66c0ac0088440f5325a459ea85542ebf56e497bc2a1"


@pytest.mark.parametrize("level", range(1, 13))
def test_the_compressor_at_hand_is_the_pinned_one(level: int) -> None:
    check_compressor(level)


def test_another_compressor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module._KNOWN_ANSWERS, 7, "0" * 64)
    check_compressor.cache_clear()
    with pytest.raises(HostRefuses, match="the compressor is not the pinned one"):
        list(members([b"x"], Encoding(level=7), jobs=1))


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
        return list(segments(headers(listing.items(), ModeTable()), lambda _: chunks))

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
    assert list(members(parts, Encoding(), jobs=jobs)) == [member(part, 6) for part in parts]


def test_the_look_ahead_is_bounded() -> None:
    asked = 0

    def parts() -> Iterator[bytes]:
        nonlocal asked
        for _ in range(100):
            asked += 1
            yield b"x"

    stream = members(parts(), Encoding(), jobs=2)
    next(stream)
    assert asked == 5
    stream.close()  # type: ignore[attr-defined]


def test_workers_are_gone_when_the_reader_fails_or_stops() -> None:
    def parts() -> Iterator[bytes]:
        yield b"x"
        raise Corrupt("bad")

    with pytest.raises(Corrupt):
        list(members(parts(), Encoding(), jobs=3))
    stream = members(iter([b"x"] * 100), Encoding(), jobs=3)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    time.sleep(0.01)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("member")]


def test_gzip_reads_a_layer_of_many_members() -> None:
    if shutil.which("gzip") is None:
        skip_or_fail("gzip is not installed")
    store = MemoryStore()
    listing = tree(store, {**FIELD, b"large": noise("l", 2 * SEGMENT), b"z": b"z" * 1000})
    blob = b"".join(members(cut(store, listing), Encoding(), jobs=2))
    assert blob.count(MEMBER_HEADER) >= 4
    subprocess.run(["gzip", "-t"], input=blob, check=True)
    out = subprocess.run(["gzip", "-dc"], input=blob, check=True, capture_output=True).stdout
    assert out == archive(store, listing)
    assert gzip.GzipFile(fileobj=io.BytesIO(blob)).read() == out


def test_an_encoding_survives_its_document() -> None:
    encoding = Encoding(level=9)
    assert Encoding.from_document(encoding.to_document()) == encoding
    assert encode(Encoding().to_document()) == (
        b'{"carry":[],"compressor":"libdeflate","derive":"layer-encoding/1",'
        b'"known-answer":"sha256:' + module._KNOWN_ANSWERS[6].encode() + b'",'
        b'"level":6,"name":"gzip-members/1","segment":1048576}'
    )


@pytest.mark.parametrize(
    "change",
    [
        {"carry": [{}]},
        {"level": 13},
        {"level": True},
        {"name": "zstd/1"},
        {"segment": 1},
        {"known-answer": "x"},
        {"a": 1},
    ],
    ids=repr,
)
def test_an_encoding_that_this_program_lacks_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"absent|not |carries|levels|unknown|segment|never"):
        Encoding.from_document({**Encoding().to_document(), **change})  # type: ignore[dict-item]


def test_only_known_encodings_can_be_made() -> None:
    with pytest.raises(ValueError, match="unknown layer encoding"):
        Encoding(name="gzip/1")
    with pytest.raises(ValueError, match="levels 1 to 12"):
        Encoding(level=0)
