# SPDX-License-Identifier: Apache-2.0
"""Unix ar archives, as .deb packages and linkers use them: where each member lies, and nothing between or after them.

Core: no IO. Bytes come from the function that the caller gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from derive.archives.names import broken

MAGIC = b"!<arch>\n"
_HEADER = 60
_MEMBERS = 64

ReadAt = Callable[[int, int], bytes]
"""``read(offset, size)`` returns exactly that slice of the archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArMember:
    """A member's name, and the slice of the archive that is its contents, in bytes."""

    name: bytes
    offset: int
    size: int


def read_ar(archive: str, read: ReadAt, size: int, *, most: int = _MEMBERS) -> tuple[ArMember, ...]:
    """Return the members of an ar archive of ``size`` bytes, in order; more than ``most`` are refused.

    Raises:
        Corrupt: when it is no ar archive, is cut short, or holds bytes that belong to no member.
    """
    if size < len(MAGIC) or read(0, len(MAGIC)) != MAGIC:
        raise broken(archive, "not an ar archive")
    members: list[ArMember] = []
    offset = len(MAGIC)
    while offset < size:
        if offset + _HEADER > size:
            raise broken(archive, "bytes after the last member of an ar archive")
        if len(members) == most:
            raise broken(archive, f"an ar archive of more than {most} members")
        member = _parse(archive, read(offset, _HEADER), offset)
        end = member.offset + member.size
        if end > size:
            raise broken(archive, "an ar archive that is cut short", path=member.name)
        if end % 2 and end < size:
            if read(end, 1) != b"\n":
                raise broken(archive, "no padding after a member of odd size", path=member.name)
            end += 1
        members.append(member)
        offset = end
    return tuple(members)


def _parse(archive: str, header: bytes, offset: int) -> ArMember:
    digits = header[48:58].rstrip(b" ")
    if header[58:60] != b"`\n" or not digits.isdigit():
        raise broken(archive, f"no ar header at byte {offset}")
    return ArMember(name=header[:16].rstrip(b" ").removesuffix(b"/"), offset=offset + _HEADER, size=int(digits))
