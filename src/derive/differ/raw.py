# SPDX-License-Identifier: Apache-2.0
"""Bytes of no known format: where they first differ, how many do, and what stands there.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from derive.differ.model import Report, Sides
from derive.words import count_text

_WINDOW = 16
_WINDOWS = 3
_BLOCK = 1 << 18


def paired(first: Iterable[bytes], second: Iterable[bytes]) -> Iterator[tuple[memoryview, memoryview]]:
    """Yield the bytes of two streams in blocks of equal length; at last, once, what only one of them has left."""
    left, right = _blocks(first), _blocks(second)
    ours, theirs = memoryview(b""), memoryview(b"")
    while True:
        ours, theirs = ours or _next(left), theirs or _next(right)
        size = min(len(ours), len(theirs))
        if size == 0:
            break
        yield ours[:size], theirs[:size]
        ours, theirs = ours[size:], theirs[size:]
    while ours:
        yield ours, memoryview(b"")
        ours = _next(left)
    while theirs:
        yield memoryview(b""), theirs
        theirs = _next(right)


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut a stream anew, so that what is shown does not depend on how it came."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= _BLOCK:
            yield bytes(held[:_BLOCK])
            del held[:_BLOCK]
    yield bytes(held)


def _next(pieces: Iterator[bytes]) -> memoryview:
    return memoryview(next((piece for piece in pieces if piece), b""))


def compare_raw(report: Report, sides: Sides) -> None:
    """Say where two contents first differ, how many bytes do, and show a few; nothing where they are equal."""
    sizes, count, position = [0, 0], 0, 0
    starts: list[int] = []
    windows: list[tuple[int, bytes, bytes]] = []
    for ours, theirs in paired(report.read(sides[0]), report.read(sides[1])):
        sizes[0] += len(ours)
        sizes[1] += len(theirs)
        if ours and theirs and ours != theirs:
            differing = _xor(ours, theirs)
            count += len(differing) - differing.count(0)
            for start in _starts(differing, _WINDOWS + 1 - len(starts)):
                starts.append(position + start)
                end = start + _WINDOW
                windows.append((position + start, bytes(ours[start:end]), bytes(theirs[start:end])))
        position += min(len(ours), len(theirs))
    if sizes[0] == sizes[1] and not count:
        return
    if sizes[0] != sizes[1]:
        report.say(f"size: {sizes[0]} -> {sizes[1]} bytes")
    if not count:
        shorter = "first" if sizes[0] < sizes[1] else "second"
        report.say(f"the {shorter} is how the other begins: they part at its end, byte {min(sizes)}")
        return
    first = windows[0][0]
    differ = f"{count_text(count, 'byte')} of {min(sizes)} differ{'s' if count == 1 else ''}"
    report.say(f"first differs at byte {first} ({first:#x}); {differ}")
    for start, old, new in windows[: _WINDOWS if sizes[0] == sizes[1] else 1]:
        report.say(f"- {start:08x}  {hex_text(old)}", "removed")
        report.say(f"+ {start:08x}  {hex_text(new)}", "added")
    if len(starts) > _WINDOWS and sizes[0] == sizes[1]:
        report.say("... and further on", "dim")


def hex_text(data: bytes) -> str:
    """Write up to 16 bytes as hex and as the characters that they may be."""
    shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
    return f"{data.hex(' '):<47}  |{shown}|"


def first_of(first: bytes, second: bytes) -> int | None:
    """Return the offset at which two held contents first differ; None where they are equal."""
    if first == second:
        return None
    size = min(len(first), len(second))
    differing = _xor(memoryview(first)[:size], memoryview(second)[:size])
    return size - len(differing.lstrip(b"\0"))


def _xor(ours: memoryview, theirs: memoryview) -> bytes:
    size = len(ours)
    return (int.from_bytes(ours, "big") ^ int.from_bytes(theirs, "big")).to_bytes(size, "big")


def _starts(differing: bytes, most: int) -> Iterator[int]:
    """Yield where windows over the bytes that are not zero begin."""
    position = 0
    while most > 0 and position < len(differing):
        rest = differing[position:]
        zeros = len(rest) - len(rest.lstrip(b"\0"))
        if zeros == len(rest):
            return
        yield position + zeros
        position += zeros + _WINDOW
        most -= 1
