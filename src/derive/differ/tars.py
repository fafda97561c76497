# SPDX-License-Identifier: Apache-2.0
"""Two tar archives, image layers among them: headers with all that a tree forgets, and what differs inside members.

Core: no IO. It reads as a stream, members of any size, and takes headers that the strict reader of archives refuses:
here the point is to show them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.archives.stream import Bytes
from derive.differ.members import Member, Opened, compare_members, numbered
from derive.differ.model import Compare, Content, Report, Sides, Unread
from derive.why.render import text_of

_BLOCK = 512
_HEADER_BYTES = 1 << 20
_KINDS = {
    b"0": "file", b"\0": "file", b"1": "hard link", b"2": "link", b"3": "device", b"4": "device", b"5": "folder",
    b"6": "fifo",
}  # fmt: skip


def is_tar(head: bytes) -> bool:
    """Say whether 512 bytes are the first header of a tar archive."""
    return head[257:262] == b"ustar"


def compare_tar(report: Report, sides: Sides, compare: Compare) -> None:
    """Compare two tar archives; raises Unread for what cannot be read."""
    first, second = (_members(report, side) for side in sides)
    opened = (_opened(report, sides[0], list(first)), _opened(report, sides[1], list(second)))
    compare_members(report, (first, second), opened, compare)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    name: bytes
    facts: Mapping[str, str]
    size: int


def _members(report: Report, content: Content) -> Mapping[str, Member]:
    found: list[Member] = []
    stream = Bytes("tar", report.read(content))
    for header in _headers(stream):
        if len(found) >= report.limits.members:
            raise Unread(f"more than {report.limits.members} members")
        hasher = hashlib.sha256()
        for piece in stream.pieces(header.size):
            hasher.update(piece)
        stream.skip(-header.size % _BLOCK)
        digest = hasher.hexdigest()
        found.append(Member(name=text_of(header.name), facts=header.facts, contents=digest, size=header.size))
    return numbered(found)


def _opened(report: Report, content: Content, names: Sequence[str]) -> Opened:
    def opened(wanted: Sequence[str]) -> Mapping[str, Content]:
        """Keep the wanted members that are small, in one pass; read the archive again for each of the others."""
        found: dict[str, Content] = {}
        stream = Bytes("tar", report.read(content))
        places = {names.index(name): name for name in wanted}
        for index, header in enumerate(_headers(stream)):
            name = places.get(index)
            if name is None or header.size > report.limits.held_bytes:
                stream.skip(header.size)
            else:
                found[name] = Content.of(b"".join(stream.pieces(header.size)))
            if name is not None:
                found.setdefault(name, Content(lambda at=index: _nth(content, at), header.size))  # type: ignore[misc]
            if len(found) == len(places):
                break
            stream.skip(-header.size % _BLOCK)
        return found

    return opened


def _nth(content: Content, wanted: int) -> Iterator[bytes]:
    stream = Bytes("tar", iter(content.pieces()))
    for index, header in enumerate(_headers(stream)):
        if index == wanted:
            yield from stream.pieces(header.size)
            return
        stream.skip(header.size + -header.size % _BLOCK)


def _headers(stream: Bytes) -> Iterator[_Header]:
    """Yield headers; whoever reads one passes over its contents before the next."""
    pax: dict[str, bytes] = {}
    long: dict[bytes, bytes] = {}
    while not stream.at_end():
        block = stream.exactly(_BLOCK)
        if not block.strip(b"\0"):
            return
        kind = block[156:157]
        size = _number(block[124:136])
        if kind in (b"x", b"g", b"L", b"K"):
            if size > _HEADER_BYTES:
                raise Unread(f"an extended header of {size} bytes")
            data = stream.exactly(size)
            stream.skip(-size % _BLOCK)
            if kind in (b"x", b"g"):
                pax.update(_records(data))
            else:
                long[kind] = data.rstrip(b"\0")
            continue
        yield _header(block, kind, size, pax, long)
        pax, long = {}, {}


def _header(block: bytes, kind: bytes, size: int, pax: Mapping[str, bytes], long: Mapping[bytes, bytes]) -> _Header:
    name = block[:100].partition(b"\0")[0]
    prefix = block[345:500].partition(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    name = pax.get("path") or long.get(b"L") or (prefix + b"/" + name if prefix else name)
    link = pax.get("linkpath") or long.get(b"K") or block[157:257].partition(b"\0")[0]
    if kind in (b"1", b"2", b"5"):
        size = 0
    elif "size" in pax:
        size = _digits(pax["size"], 10)
    facts = {
        "kind": _KINDS.get(kind, kind.decode("latin-1")),
        "mode": f"{_number(block[100:108]):04o}",
        "owner": f"{_number(block[108:116])}:{_number(block[116:124])}",
        "names": f"{text_of(block[265:297].rstrip(bytes(1)))}:{text_of(block[297:329].rstrip(bytes(1)))}",
        "time": str(_number(block[136:148])),
        "target": text_of(link) or "none",
        "format": text_of(block[257:265].rstrip(b"\0")),
        "extended": ", ".join(f"{key}={text_of(value)}" for key, value in sorted(pax.items())) or "none",
    }
    return _Header(name=name, facts=facts, size=size)


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    return _digits(field.partition(b"\0")[0].strip(b" ") or b"0", 8)


def _digits(text: bytes, base: int) -> int:
    if not text.isdigit() or len(text) > 20:
        raise Unread(f"no tar header: {text[:20]!r} is no number")
    return int(text, base)


def _records(data: bytes) -> Iterator[tuple[str, bytes]]:
    start = 0
    while start < len(data):
        digits = data[start : start + 12].partition(b" ")[0]
        end = start + (_digits(digits, 10) or len(data))
        key, _, value = data[start + len(digits) + 1 : end - 1].partition(b"=")
        yield text_of(key), value
        start = end
