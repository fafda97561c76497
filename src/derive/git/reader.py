# SPDX-License-Identifier: Apache-2.0
"""Objects of a scratch repository by id, many at a time, each checked by its id as it is read.

Edge: git as a subprocess.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Self

from derive.errors import Corrupt, expected_got
from derive.git.objects import Kind, begin_object
from derive.git.program import Git

_AHEAD = 512  # ids asked for before the first is read: they must fit in a pipe, or both sides would wait
_CHUNK = 1 << 18


class AbsentObject(Exception):
    """The scratch repository has no such object."""


@dataclass(frozen=True, slots=True)
class Found:
    """One object on its way: its kind and size in bytes, and its bytes, to be read before the next is asked for."""

    kind: str
    size: int
    chunks: Iterator[bytes]


class ObjectReader:
    """One ``git cat-file``; use it as a context manager, from one thread."""

    def __init__(self, git: Git) -> None:
        self._process = git.objects()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue

    def read(self, kind: Kind, name: str) -> bytes:
        """Return a small object whole.

        Raises:
            AbsentObject: it is not there.
            Corrupt: it is another kind of object, or its bytes are not those of its id.
        """
        return next(self.read_all(kind, (name,)))

    def read_all(self, kind: Kind, names: Sequence[str]) -> Iterator[bytes]:
        """Yield objects whole, in order; raises as :meth:`read`."""
        for found in self.stream(kind, names):
            yield b"".join(found.chunks)

    def stream(self, kind: Kind, names: Sequence[str]) -> Iterator[Found]:
        """Yield objects in order, each to be consumed before the next; raises as :meth:`read`."""
        asked = 0
        for index, name in enumerate(names):
            if index == asked:
                wave = names[asked : asked + _AHEAD]
                asked += len(wave)
                self._in.write("".join(f"{each}\n" for each in wave).encode())
                self._in.flush()
            yield self._next(kind, name)

    def _next(self, kind: Kind, name: str) -> Found:
        found, size = self._header(name)
        if found != kind:
            raise Corrupt(f"git object {name} is another kind of object", detail=expected_got(kind, found))
        return Found(found, size, self._checked(kind, name, size))

    def _header(self, name: str) -> tuple[str, int]:
        words = self._out.readline().split()
        if len(words) != 3 or words[0] != name.encode():
            raise AbsentObject(name)
        return words[1].decode(), int(words[2])

    def _checked(self, kind: Kind, name: str, size: int) -> Iterator[bytes]:
        """Yield an object's bytes, and raise at their end when they are not those of its id."""
        hasher = begin_object(kind, size)
        for piece in self._pieces(name, size):
            hasher.update(piece)
            yield piece
        if self._out.read(1) != b"\n":
            raise AbsentObject(name)
        if hasher.hexdigest() != name:
            raise Corrupt("a git object is not what its id says", detail=expected_got(name, hasher.hexdigest()))

    def _pieces(self, name: str, size: int) -> Iterator[bytes]:
        left = size
        while left:
            piece = self._out.read(min(_CHUNK, left))
            if not piece:
                raise AbsentObject(name)
            left -= len(piece)
            yield piece

    @property
    def _in(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _out(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout
