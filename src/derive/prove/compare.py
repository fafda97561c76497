# SPDX-License-Identifier: Apache-2.0
"""Where two sets of files first differ: the file, the byte, the line.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One file that is not the same. ``offset`` (bytes, from 0) and ``line`` (from 1) are None where a side has none.

    ``expected`` and ``got`` are the two lines at that place, or what is there instead.
    """

    path: str
    offset: int | None = None
    line: int | None = None
    expected: str
    got: str


def differences(expected: Mapping[str, bytes], got: Mapping[str, bytes]) -> Iterator[Difference]:
    """Yield every file that differs, in the order of their paths; nothing where all are the same."""
    for path in sorted(expected.keys() | got.keys()):
        if path not in got:
            yield Difference(path=path, expected=f"a file of {len(expected[path])} bytes", got="no such file")
        elif path not in expected:
            yield Difference(path=path, expected="no such file", got=f"a file of {len(got[path])} bytes")
        elif expected[path] != got[path]:
            yield _first(path, expected[path], got[path])


def not_runnable(scripts: Mapping[str, bytes], modes: Mapping[str, int]) -> Iterator[Difference]:
    """Yield each file that begins with ``#!`` and cannot be run by its owner; ``modes`` are those of files on disk."""
    for path, data in sorted(scripts.items()):
        mode = modes.get(path)
        if mode is not None and data.startswith(b"#!") and not mode & 0o100:
            yield Difference(path=path, expected=f"mode {mode:03o}, which cannot be run", got="a file that can be run")


def _first(path: str, expected: bytes, got: bytes) -> Difference:
    shorter = min(len(expected), len(got))
    offset = next((at for at in range(shorter) if expected[at] != got[at]), shorter)
    return Difference(
        path=path,
        offset=offset,
        line=expected.count(b"\n", 0, offset) + 1,
        expected=_line(expected, offset),
        got=_line(got, offset),
    )


def _line(data: bytes, offset: int) -> str:
    """Return the line at an offset as text, cut around it where it is long."""
    if offset >= len(data):
        return "the end of the file"
    start = data.rfind(b"\n", 0, offset) + 1
    end = data.find(b"\n", offset)
    begin = start if offset - start < _SHOWN else offset - _SHOWN // 2
    piece = data[begin : end if end >= 0 else len(data)][: _SHOWN * 2]
    return ("... " if begin > start else "") + ascii(piece.decode("utf-8", "backslashreplace"))[1:-1]
