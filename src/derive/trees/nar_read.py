# SPDX-License-Identifier: Apache-2.0
"""Reads a NAR back into a tree: only the one serialisation that a tree has is accepted, and nothing is held whole.

Core: no IO. Bytes come from whoever calls, and go where it puts them.

The grammar is on docs/formats/tree-digest.md. Whatever differs from it is refused with the byte at which it does: so
what was read gives, serialised again, the bytes that it was read from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from derive.canonical import Digest, escape
from derive.errors import Corrupt, expected_got
from derive.store.protocol import CHUNK, Store
from derive.trees.listing import DIRECTORY, Directory, Entry, File, Listing, Location, Symlink
from derive.trees.pack import Member, NewFile, add_members


@dataclass(frozen=True, slots=True, kw_only=True)
class NarLimits:
    """How much a NAR may hold: entries, and bytes of one path and of one link's target."""

    entries: int = 4_000_000
    path_bytes: int = 4095
    target_bytes: int = 4095


DEFAULT_LIMITS = NarLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class NarFile:
    """A regular file on the way: ``size`` bytes that begin at ``offset`` of the NAR, consumed once and in order."""

    executable: bool
    size: int
    offset: int
    chunks: Iterator[bytes]


NarEntry = NarFile | Symlink | Directory


def read_nar(store: Store, pieces: Iterable[bytes], *, limits: NarLimits = DEFAULT_LIMITS) -> Listing:
    """Write the contents of a NAR into a store, as one pack, and return the located listing; no tree is registered.

    Raises:
        Corrupt: when the bytes are not the NAR of a tree.
    """
    return add_members(store, _members(entries_of(pieces, limits=limits)))


def locate_nar(pieces: Iterable[bytes], blob: Digest, *, limits: NarLimits = DEFAULT_LIMITS) -> Listing:
    """Return the tree of a NAR that is itself a stored blob: its files are slices of that blob, and nothing is written.

    Raises:
        Corrupt: when the bytes are not the NAR of a tree, or not those that ``blob`` names.
    """
    hasher = hashlib.sha256()
    entries = _located(entries_of(_noting(pieces, hasher), limits=limits), blob)
    if hasher.hexdigest() != blob.hex:
        raise Corrupt(
            "the bytes are not what their name says", detail=expected_got(blob, f"sha256:{hasher.hexdigest()}")
        )
    return Listing(entries)


def entries_of(pieces: Iterable[bytes], *, limits: NarLimits = DEFAULT_LIMITS) -> Iterator[tuple[bytes, NarEntry]]:
    """Yield each path with what it is, in NAR order, the root first; what is left of a file's chunks is passed over.

    Raises:
        Corrupt: while it is consumed, when the bytes are not the NAR of a tree.
    """
    reader = _Reader(pieces)
    reader.expect(_MAGIC, "the beginning of a NAR")
    open_folders: list[_Folder] = []
    path = b""
    seen = 0
    while True:
        seen += 1
        if seen > limits.entries:
            raise reader.fault(f"more than {limits.entries} entries")
        entry = reader.node(path, limits)
        yield path, entry
        if isinstance(entry, Directory):
            open_folders.append(_Folder(path))
        else:
            reader.close_node(entry, inside=bool(path))
        while open_folders and not reader.opens_entry():
            reader.close_folder(inside=bool(open_folders.pop().path))
        if not open_folders:
            break
        path = open_folders[-1].next_path(reader, limits)
    reader.require_end()


def _string(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text + b"\0" * (-len(text) % 8)


_MAGIC = _string(b"nix-archive-1")
_CLOSE = _string(b")")
_NODE = _string(b"(") + _string(b"type")
_REGULAR = _string(b"regular")
_SYMLINK = _string(b"symlink")
_TARGET = _string(b"target")
_DIRECTORY = _string(b"directory")
_CONTENTS = _string(b"contents")
_EXECUTABLE = _string(b"executable") + _string(b"")
_ENTRY = _string(b"entry")
_NAME = _string(b"(") + _string(b"name")
_THEN_NODE = _string(b"node")
_WORD = 16  # bytes of the shortest words, which tell every alternative apart
_LONGEST = 1 << 62


class _Hasher(Protocol):
    def update(self, data: bytes, /) -> None: ...


class _Folder:
    """A folder whose entries are being read; ``last`` is the name before, which the next one must follow."""

    __slots__ = ("last", "path")

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.last: bytes | None = None

    def next_path(self, reader: _Reader, limits: NarLimits) -> bytes:
        """Read the head of an entry and return its path."""
        reader.expect(_NAME, "the name of an entry")
        name = reader.string(limits.path_bytes, "a name")
        if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
            raise reader.fault(f"{escape(name)!r} is no name of a tree")
        if self.last is not None and name <= self.last:
            raise reader.fault(f"the name {escape(name)!r} does not come after {escape(self.last)!r}")
        self.last = name
        path = self.path + b"/" + name if self.path else name
        if len(path) > limits.path_bytes:
            raise reader.fault(f"a path of {len(path)} bytes, more than {limits.path_bytes}")
        reader.expect(_THEN_NODE, "what the entry is")
        return path


class _Reader:
    """Takes exact numbers of bytes from pieces of any size, and knows how many were taken."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._piece = b""
        self._at = 0
        self._before = 0  # bytes of the pieces that came before this one

    @property
    def offset(self) -> int:
        """How many bytes were taken."""
        return self._before + self._at

    def fault(self, why: str) -> Corrupt:
        """Return the error for what stands here."""
        return Corrupt(f"not the NAR of a tree: {why}", detail=[f"before    byte {self.offset}"])

    def take(self, count: int) -> bytes:
        """Return the next bytes, of which there are few."""
        end = self._at + count
        if end <= len(self._piece):
            found = self._piece[self._at : end]
            self._at = end
            return found
        return b"".join(self.stream(count))

    def stream(self, count: int) -> Iterator[bytes]:
        """Yield the next bytes in pieces of at most ``CHUNK`` bytes."""
        while count:
            if self._at == len(self._piece):
                self._next()
            part = self._piece[self._at : self._at + min(count, CHUNK)]
            self._at += len(part)
            count -= len(part)
            yield part

    def _next(self) -> None:
        self._before += len(self._piece)
        self._at = 0
        self._piece = b""
        for piece in self._pieces:
            if piece:
                self._piece = bytes(piece)
                return
        raise self.fault("it ends early")

    def expect(self, text: bytes, what: str) -> None:
        """Take exactly these bytes."""
        if self.take(len(text)) != text:
            raise self.fault(f"{what} is expected")

    def string(self, most: int, what: str) -> bytes:
        """Take a string of up to so many bytes."""
        size = self.number()
        if size > most:
            raise self.fault(f"{what} of {size} bytes, more than {most}")
        text = self.take(size)
        self.padding(size)
        return text

    def number(self) -> int:
        """Take a length."""
        return int.from_bytes(self.take(8), "little")

    def padding(self, size: int) -> None:
        """Take the zero bytes that follow a string of that size."""
        if self.take(-size % 8).strip(b"\0"):
            raise self.fault("zero bytes are expected")

    def node(self, path: bytes, limits: NarLimits) -> NarEntry:
        """Take the head of a node; of a regular file, its contents come next."""
        self.expect(_NODE, "a node")
        kind = self.take(_WORD)
        if kind == _REGULAR:
            return self._regular()
        if kind == _SYMLINK:
            self.expect(_TARGET, "the target of a link")
            target = self.string(limits.target_bytes, "a link's target")
            if not target or b"\0" in target:
                raise self.fault(f"{escape(path) or 'the root'} is a link without a target that can be")
            return Symlink(target)
        if kind == _DIRECTORY[:_WORD]:
            self.expect(_DIRECTORY[_WORD:], "the word directory")
            return DIRECTORY
        raise self.fault("a regular file, a link or a folder is expected")

    def _regular(self) -> NarFile:
        word = self.take(_WORD)
        executable = word == _EXECUTABLE[:_WORD]
        if executable:
            self.expect(_EXECUTABLE[_WORD:], "the word executable")
            word = self.take(_WORD)
        if word != _CONTENTS:
            raise self.fault("the contents of a file are expected")
        size = self.number()
        if size > _LONGEST:
            raise self.fault(f"a file of {size} bytes")
        return NarFile(executable=executable, size=size, offset=self.offset, chunks=self.stream(size))

    def close_node(self, entry: NarFile | Symlink, *, inside: bool) -> None:
        """Take the end of a file or link, and of the entry that it is."""
        if isinstance(entry, NarFile):
            for _ in entry.chunks:
                pass
            self.padding(entry.size)
        self.expect(_CLOSE, "the end of a node")
        if inside:
            self.expect(_CLOSE, "the end of an entry")

    def opens_entry(self) -> bool:
        """Take the word that follows inside a folder, and say whether it begins an entry; else it ends the folder."""
        word = self.take(_WORD)
        if word not in (_ENTRY, _CLOSE):
            raise self.fault("an entry or the end of a folder is expected")
        return word == _ENTRY

    def close_folder(self, *, inside: bool) -> None:
        """Take the end of the entry that a folder is; its own was taken."""
        if inside:
            self.expect(_CLOSE, "the end of an entry")

    def require_end(self) -> None:
        """Refuse what follows."""
        if self._at < len(self._piece) or any(self._pieces):
            raise self.fault("bytes follow its end")


def _members(entries: Iterable[tuple[bytes, NarEntry]]) -> Iterator[tuple[bytes, Member]]:
    for path, entry in entries:
        yield path, NewFile(entry.executable, entry.chunks) if isinstance(entry, NarFile) else entry


def _located(entries: Iterable[tuple[bytes, NarEntry]], blob: Digest) -> dict[bytes, Entry]:
    found: dict[bytes, Entry] = {}
    for path, entry in entries:
        if isinstance(entry, NarFile):
            hasher = hashlib.sha256()
            for chunk in entry.chunks:
                hasher.update(chunk)
            digest = Digest(hasher.hexdigest())
            found[path] = File(entry.executable, entry.size, digest, Location(blob, entry.offset, entry.size))
        else:
            found[path] = entry
    return found


def _noting(pieces: Iterable[bytes], hasher: _Hasher) -> Iterator[bytes]:
    for piece in pieces:
        hasher.update(piece)
        yield piece
