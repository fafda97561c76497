# SPDX-License-Identifier: Apache-2.0
"""Where the files of an OCI layout lie in one uncompressed tar: header after header is read, and no contents.

Core: no IO. Bytes come from a function that the caller gives.

A layout has folders and regular files. Anything else in the archive could lead a reader elsewhere, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from derive.canonical import Digest, escape
from derive.errors import Corrupt
from derive.images.tar import BLOCK

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Returns so many bytes from an offset on, fewer only at the end of the file."""

_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{64})")
_PAX_LIMIT = 1 << 16
_MEMBERS = 1 << 20
_LINKS = {b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a FIFO"}


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes of a file: where they begin and how many there are."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TarIndex:
    """The blobs of a layout by digest, and its other files by name."""

    blobs: dict[Digest, Slice]
    files: dict[str, Slice]


def read_tar_index(read: ReadAt, size: int, where: str) -> TarIndex:
    """Find every file of a layout in a tar of ``size`` bytes.

    Raises:
        Corrupt: when it is no tar, ends early, or holds what no layout does.
    """
    found = TarIndex(blobs={}, files={})
    offset, sized = 0, None
    for _ in range(_MEMBERS):
        block = read(offset, BLOCK)
        if len(block) < BLOCK:
            raise _cut(where, offset, size)
        offset += BLOCK
        if not block.strip(b"\0"):
            if len(read(offset, BLOCK)) < BLOCK:
                raise _cut(where, offset, size)
            return found
        name, stated, kind = _header(block, where)
        if name.startswith("/") or ".." in name.split("/"):
            raise Corrupt("a name that leads out of the layout", where=f"{where}: {name}")
        length = stated if sized is None else sized
        if offset + length > size:
            raise _cut(where, size, offset + length, name)
        sized = None
        if kind == b"x":
            sized = _pax_size(read(offset, min(length, _PAX_LIMIT)), where)
        elif kind in (b"0", b"\0"):
            _add(found, name, Slice(offset, length), where)
        elif kind != b"5":
            what = _LINKS.get(kind, "something else than a file")
            raise Corrupt(f"{what} in a layout, where only files and folders are", where=f"{where}: {name}")
        offset += length + -length % BLOCK
    raise Corrupt(f"more than {_MEMBERS} members", where=where)


def _header(block: bytes, where: str) -> tuple[str, int, bytes]:
    """Return name, size and kind of a member."""
    stated, size = _octal(block[148:156]), _octal(block[124:136])
    if size < 0 or sum(block[:148]) + sum(block[156:]) + 8 * 32 != stated:
        raise Corrupt("not an uncompressed tar: no header where one begins", where=where)
    prefix = block[345:500].partition(b"\0")[0]
    name = block[:100].partition(b"\0")[0]
    if block[257:262] == b"ustar" and prefix:
        name = prefix + b"/" + name
    return escape(name.removeprefix(b"./")), size, block[156:157]


def _octal(field: bytes) -> int:
    """Return the number in a field, 0 for an empty one, -1 for what is none."""
    digits = field.strip(b" \0")
    return -1 if digits.strip(b"01234567") else int(digits or b"0", 8)


def _add(found: TarIndex, name: str, at: Slice, where: str) -> None:
    match = _BLOB.fullmatch(name)
    if match is not None and Digest(match[1]) not in found.blobs:
        found.blobs[Digest(match[1])] = at
    elif match is None and name not in found.files:
        found.files[name] = at
    else:
        raise Corrupt("the same file twice", where=f"{where}: {name}")


def _pax_size(body: bytes, where: str) -> int | None:
    """Return the size that an extended header states, None where it states none."""
    size = None
    while body:
        length, _, rest = body.partition(b" ")
        if not length.isdigit() or not len(length) + 1 < int(length) <= len(body):
            raise Corrupt("an extended header that cannot be read", where=where)
        key, _, value = rest[: int(length) - len(length) - 1].rstrip(b"\n").partition(b"=")
        if key == b"size":
            if not value.isdigit() or len(value) > 18:
                raise Corrupt("an extended header that cannot be read", where=where)
            size = int(value)
        body = body[int(length) :]
    return size


def _cut(where: str, got: int, expected: int, name: str | None = None) -> Corrupt:
    detail = [] if name is None else [f"needed    {expected} bytes up to the end of {name}", f"got       {got} bytes"]
    return Corrupt("the tar is cut short", where=where, detail=detail, hint="copy it again from where it is whole")
