# SPDX-License-Identifier: Apache-2.0
"""Two zip archives, wheels among them: their members, and what differs inside these.

Core: no IO. Imports the standard library's reader when it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from derive.differ.members import Member, Opened, compare_members, numbered
from derive.differ.model import Compare, Content, Report, Sides, Unread

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

_CHUNK = 1 << 20
_METHODS = {0: "stored", 8: "deflate", 12: "bzip2", 14: "lzma"}


def compare_zip(report: Report, sides: Sides, compare: Compare) -> None:
    """Compare two zip archives; raises Unread for what is none."""
    from zipfile import BadZipFile, ZipFile

    try:
        archives = [ZipFile(BytesIO(report.hold(side))) for side in sides]
    except BadZipFile as error:
        raise Unread(str(error)) from error
    for archive in archives:
        if len(archive.infolist()) > report.limits.members:
            raise Unread(f"more than {report.limits.members} members")
    first, second = (numbered([_member(one) for one in archive.infolist()]) for archive in archives)
    comments = [archive.comment for archive in archives]
    if comments[0] != comments[1]:
        report.say(f"comment of the archive: {comments[0][:40]!r} -> {comments[1][:40]!r}")
    opened = (_opened(archives[0], first), _opened(archives[1], second))
    compare_members(report, (first, second), opened, compare)


def _member(info: ZipInfo) -> Member:
    year, month, day, hour, minute, second = info.date_time
    facts = {
        "time": f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}",
        "method": _METHODS.get(info.compress_type, str(info.compress_type)),
        "mode": f"{info.external_attr >> 16:o}",
        "attributes": f"{info.external_attr & 0xFFFF:#x}",
        "made by": f"{info.create_system}.{info.create_version}",
        "flags": f"{info.flag_bits:#x}",
        "extra": info.extra[:16].hex() or "none",
        "crc": f"{info.CRC:08x}",
    }
    return Member(name=info.filename, facts=facts, contents=f"{info.CRC:08x}", size=info.file_size)


def _opened(archive: ZipFile, members: Mapping[str, Member]) -> Opened:
    infos = dict(zip(members, archive.infolist(), strict=True))

    def opened(names: Sequence[str]) -> Mapping[str, Content]:
        return {name: Content(lambda info=infos[name]: _pieces(archive, info), infos[name].file_size) for name in names}  # type: ignore[misc]

    return opened


def _pieces(archive: ZipFile, info: ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as file:
        while piece := file.read(_CHUNK):
            yield piece
