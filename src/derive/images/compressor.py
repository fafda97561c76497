# SPDX-License-Identifier: Apache-2.0
"""The pinned compressor, known by what it makes of a known text, and the gzip member around a deflate stream.

Core: no IO.

The member's bytes and the known text are specified on docs/formats/layer.md.
"""

from __future__ import annotations

import hashlib
from functools import cache

from derive.errors import HostRefuses, expected_got

COMPRESSOR = "libdeflate"
DISTRIBUTION = "deflate==0.9.0"

MEMBER_HEADER = b"\x1f\x8b\x08\x00\0\0\0\0\x00\xff"
"""Deflate, no flags and so no name, time 0, XFL 0, OS 255: nothing of the machine or the hour."""

LEVELS = range(1, 13)
KNOWN_ANSWERS = {
    1: "22037e8cef51f1136bcdb3346a5cce35321a51575c7d608fa51dd0f46097e97d",
    2: "e94bd1f9945a9cd0c7c9143e597fbe409324e8bafe55694d3e53bfdd290e5892",
    3: "9f0f68dbc94a1645d78379697752bd82578631667881a75d63d59bd44d5d35d7",
    4: "7313673f509bfb0148cd4dc1e7462d98049e807ca7ef31d645c7733d857205a0",
    5: "8c4b0c17b43b77465c8dc2dda6f6f2092f64645ed99dd98a7a5e237995b773ff",
    6: "756fa7a5f2551fbc017d5acb15a56d7647a1ff8da06eb19b452059058ab42c64",
    7: "4168c349cb81f47bb2d646ae62fe21976510ff8806f3d32c8e53e45132fc3d0c",
    8: "8f437fc3058f8c0d87e1db7d78289f9013f0e35c023af0c04bba2c899df14738",
    9: "8f437fc3058f8c0d87e1db7d78289f9013f0e35c023af0c04bba2c899df14738",
    10: "ee49591e6d5b933768e4e08de58a998312e114e34d7bf8dd8b7493a72cdfd695",
    11: "ad1c176f1ac9901247e7c9b65730d831985a5ab88ff8fe8fb3f29fa04f888b99",
    12: "6a3b299251fdf506bf7bbb5aadabc873fb7170626616e4b79fb033d6c01e427f",
}
"""By level: the SHA-256 of the known text as one gzip member."""


def member(segment: bytes, level: int) -> bytes:
    """Return one gzip member."""
    import deflate

    body = deflate.deflate_compress(segment, level)
    return b"".join((MEMBER_HEADER, body, trailer(deflate.crc32(segment), len(segment))))


def trailer(crc: int, size: int) -> bytes:
    """Return what ends a gzip member: its CRC-32, and its length modulo 2^32, which readers of longer ones expect."""
    return crc.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")


def known_text() -> bytes:
    """Return 64 KiB that any programmer can make again: decimal numbers, noise, a byte pattern, and repeats of all."""
    numbers = b" ".join(b"%d" % (n * n) for n in range(4000))[:16384]
    noise = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(512))
    pattern = bytes(n * n % 251 for n in range(16384))
    repeats = b"".join(part[at : at + 97] for at in range(0, 16384, 97) for part in (numbers, noise, pattern))[:16384]
    return numbers + noise + pattern + repeats


@cache
def check_compressor(level: int) -> None:
    """Compress the known text and compare: a compressor that gives other bytes would give other digests.

    Raises:
        HostRefuses: when the bytes differ.
    """
    got = hashlib.sha256(member(known_text(), level)).hexdigest()
    if got != KNOWN_ANSWERS[level]:
        raise HostRefuses(
            "the compressor is not the pinned one",
            detail=expected_got(f"sha256:{KNOWN_ANSWERS[level]}", f"sha256:{got}"),
            hint=f"install {DISTRIBUTION} from its wheel into this environment",
        )
