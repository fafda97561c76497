# SPDX-License-Identifier: Apache-2.0
"""The outer form of a .deb, format 2.0: three members in their order, and nothing else.

Core: no IO.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.archives.ar import ArMember, ReadAt, read_ar
from derive.archives.names import broken
from derive.errors import Corrupt, expected_got

VERSION = b"2.0\n"
_SUFFIXES = (b"", b".gz", b".xz", b".bz2", b".zst", b".lzma")


@dataclass(frozen=True, slots=True, kw_only=True)
class DebParts:
    """The two tar archives of a .deb, each compressed in its own way."""

    control: ArMember
    data: ArMember


def read_deb(archive: str, read: ReadAt, size: int) -> DebParts:
    """Return where the control and data archives lie.

    Raises:
        Corrupt: when the members are not debian-binary (2.0), control.tar and data.tar, in this order and alone.
    """
    members = read_ar(archive, read, size)
    got = ", ".join(member.name.decode("latin-1") for member in members)
    if len(members) != 3:
        raise _unlike(archive, got)
    version, control, data = members
    if version.name != b"debian-binary" or not _is(control, b"control.tar") or not _is(data, b"data.tar"):
        raise _unlike(archive, got)
    stated = read(version.offset, min(version.size, 16))
    if stated != VERSION:
        raise broken(archive, "a .deb of another format", detail=expected_got(VERSION, stated))
    return DebParts(control=control, data=data)


def _is(member: ArMember, stem: bytes) -> bool:
    return member.name in {stem + suffix for suffix in _SUFFIXES}


def _unlike(archive: str, got: str) -> Corrupt:
    expected = "debian-binary, control.tar.*, data.tar.*"
    return broken(archive, "not a .deb", detail=expected_got(expected, got))
