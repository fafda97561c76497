# SPDX-License-Identifier: Apache-2.0
"""Finds GPU code inside a file: NVIDIA's containers of images (fatbins), machine code on its own (cubins), PTX.

Core: no IO; it reads through the function that it is given, headers alone.

A container is a header of 16 bytes (magic, version, its own size, bytes that follow) and entries, each a header (kind,
its own size, payload size, version, architecture, flags) and a payload. The payload, which is mostly compressed, is
never read: what the entry's header says is what NVIDIA's own tools list.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from derive.verify.architectures import GpuCode, Variant, variant_of

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Gives ``size`` bytes at ``offset``, fewer at the end."""

FATBIN_MAGIC = b"\x50\xed\x55\xba"
EM_CUDA = 190

_PTX, _CUBIN = 1, 2
_ONLY_THIS, _FAMILY = 0x100000, 0x200000
_CONTAINER = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQ")
_ENTRY_LEAST = 64
_CUBIN_START = b"\x7fELF\x02\x01\x01"
_CHUNK = 8 << 20
_ELF_HEADER = 64
_LARGEST_CUBIN = 64 << 20
_ABI_OF_CUDA_13 = 8
_ARCHITECTURE = re.compile(rb"-arch[ =]sm_([0-9]{2,4})([af]?)")
_TARGET = re.compile(rb"^\s*\.target\s+sm_([0-9]{2,4})([af]?)", re.MULTILINE)
_VERSION = re.compile(rb"^\s*\.version\s+([0-9]+)\.([0-9]+)", re.MULTILINE)


class Malformed(ValueError):
    """Something that begins like GPU code and is none; the message says where."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One container, or one cubin or PTX text on its own: the same code, for one architecture or several."""

    offset: int
    size: int
    images: tuple[GpuCode, ...]


def containers(read: ReadAt, start: int, end: int) -> Iterator[Unit]:
    """Yield the containers that lie one after another between two offsets, with zero bytes between them.

    Raises:
        Malformed: when something else lies there, or a container does not fit.
    """
    position = start
    while (position := _skip_zeros(read, position, end)) < end:
        unit = _container(read, position, end)
        if unit is None:
            raise Malformed(f"no GPU container at offset {position}")
        yield unit
        position += unit.size


def scattered(read: ReadAt, start: int, end: int) -> Iterator[Unit]:
    """Yield the containers and cubins that lie anywhere between two offsets; what only looks like one is no unit."""
    position, behind = start, start
    while position < end:
        chunk = read(position, min(_CHUNK, end - position))
        for mark in _marks(chunk):
            at = position + mark
            unit = (_container(read, at, end) or _cubin(read, at, end)) if at >= behind else None
            if unit is not None:
                yield unit
                behind = at + unit.size
        # A mark may lie across two chunks.
        is_last = not chunk or position + len(chunk) >= end
        position = end if is_last else max(position + len(chunk) - len(_CUBIN_START) + 1, behind)


def lone_cubin(read: ReadAt, size: int) -> Unit:
    """Read a file that is a cubin; raises Malformed."""
    unit = _cubin(read, 0, size)
    if unit is None:
        raise Malformed("an ELF file for GPUs of an architecture that cannot be read")
    return unit


def ptx_text(head: bytes, size: int) -> Unit | None:
    """Read the beginning of a file that may be PTX; None when it is none."""
    version, target = _VERSION.search(head), _TARGET.search(head)
    if version is None or target is None:
        return None
    code = GpuCode(int(target[1]), variant_of(target[2].decode()), (int(version[1]), int(version[2])))
    return Unit(0, size, (code,))


def _marks(chunk: bytes) -> list[int]:
    """Return where GPU code may begin, in order."""
    found: list[int] = []
    for mark in (FATBIN_MAGIC, _CUBIN_START):
        at = chunk.find(mark)
        while at >= 0:
            found.append(at)
            at = chunk.find(mark, at + 1)
    return sorted(found)


def _skip_zeros(read: ReadAt, position: int, end: int) -> int:
    while position < end:
        piece = read(position, min(4096, end - position))
        rest = piece.lstrip(b"\0")
        position += len(piece) - len(rest)
        if rest or not piece:
            return position
    return end


def _container(read: ReadAt, at: int, end: int) -> Unit | None:
    header = read(at, _CONTAINER.size)
    if len(header) < _CONTAINER.size:
        return None
    magic, version, header_size, size = _CONTAINER.unpack(header)
    stop = at + header_size + size
    if magic != FATBIN_MAGIC or version != 1 or header_size < _CONTAINER.size or stop > end:
        return None
    images: list[GpuCode] = []
    position = at + header_size
    while position + _ENTRY_LEAST <= stop:
        entry = read(position, _ENTRY.size)
        if len(entry) < _ENTRY.size:
            return None
        kind, _, entry_header, payload, _, _, minor, major, number, _, _, flags = _ENTRY.unpack(entry)
        if entry_header < _ENTRY_LEAST or position + entry_header + payload > stop:
            return None
        if kind in (_PTX, _CUBIN):
            variant: Variant = "a" if flags & _ONLY_THIS else "f" if flags & _FAMILY else ""
            images.append(GpuCode(number, variant, (major, minor) if kind == _PTX else None))
        position += entry_header + payload
    return Unit(at, stop - at, tuple(sorted(set(images), key=str)))


def _cubin(read: ReadAt, at: int, end: int) -> Unit | None:
    header = read(at, _ELF_HEADER)
    if len(header) < _ELF_HEADER or not header.startswith(_CUBIN_START):
        return None
    kind, machine = struct.unpack_from("<HH", header, 16)
    sections, flags, header_size, _, _, entry_size, count, _ = struct.unpack_from("<QIHHHHHH", header, 40)
    segments, segment_size, segment_count = _segments(header)
    size = max(sections + entry_size * count, segments + segment_size * segment_count)
    if machine != EM_CUDA or kind not in (1, 2) or header_size != _ELF_HEADER or at + size > end:
        return None
    # The header's flags have the number alone: which variant it is stands in the assembler's own note.
    made = _ARCHITECTURE.search(read(at, min(size, _LARGEST_CUBIN)))
    number = flags >> 8 & 0xFF if header[8] >= _ABI_OF_CUDA_13 else flags & 0xFF
    code = GpuCode(int(made[1]), variant_of(made[2].decode())) if made else GpuCode(number)
    return Unit(at, max(size, _ELF_HEADER), (code,))


def _segments(header: bytes) -> tuple[int, int, int]:
    (offset,) = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    return offset, size, count
