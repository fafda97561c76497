# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import hashlib
import zlib

import pytest

from derive.canonical import sha256
from derive.errors import HostRefuses
from derive.images.compressor import KNOWN_ANSWERS, MEMBER_HEADER, check_compressor, known_text, member, trailer


def test_a4_the_header_of_a_member_is_ten_fixed_bytes() -> None:
    assert member(b"", 6)[:10] == MEMBER_HEADER == bytes([31, 139, 8, 0, 0, 0, 0, 0, 0, 255])
    assert gzip.decompress(member(b"", 6)) == b""


def test_a_member_ends_with_crc_and_size() -> None:
    data = hashlib.shake_128(b"a").digest(100_000)
    assert member(data, 6)[-8:] == zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")


@pytest.mark.parametrize("size", [0, 1, 2**32 - 1, 2**32, 2**32 + 7, 5 * 2**32 + 9])
def test_the_length_of_a_member_is_stated_modulo_4_gib(size: int) -> None:
    assert trailer(0xDDCCBBAA, size) == b"\xaa\xbb\xcc\xdd" + (size % 2**32).to_bytes(4, "little")


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
    monkeypatch.setitem(KNOWN_ANSWERS, 7, "0" * 64)
    check_compressor.cache_clear()
    with pytest.raises(HostRefuses, match="the compressor is not the pinned one"):
        check_compressor(7)
