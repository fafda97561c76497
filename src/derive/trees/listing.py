# SPDX-License-Identifier: Apache-2.0
"""A tree is a listing: what each path is, and where its contents are found.

Core: no IO.

Paths are bytes, relative, ``/``-separated; the root is ``b""``. Only type, owner-execute bit, link target and contents
are facts of a tree; where the contents lie (:class:`Location`) is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from derive.canonical import Digest, escape

Method: TypeAlias = Literal["raw", "deflate"]


class ListingError(ValueError):
    """A set of entries that is no tree; the message names the path."""


@dataclass(frozen=True, slots=True)
class Location:
    """A slice of a stored blob: ``size`` bytes at ``offset``, either the contents or a raw deflate stream of them."""

    blob: Digest
    offset: int
    size: int
    method: Method = "raw"


@dataclass(frozen=True, slots=True)
class File:
    """A regular file: its owner-execute bit, its size in bytes and the SHA-256 of its contents."""

    executable: bool
    size: int
    sha256: Digest
    at: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Symlink:
    """A symbolic link and its target, which may lead anywhere or nowhere."""

    target: bytes


@dataclass(frozen=True, slots=True)
class Directory:
    """A folder, empty or not."""


Entry: TypeAlias = File | Symlink | Directory

DIRECTORY = Directory()


def nar_key(path: bytes) -> bytes:
    """Sort key that puts paths in NAR order: component by component, parents first (no name holds a zero byte)."""
    return path.replace(b"/", b"\0")


def check_path(path: bytes) -> None:
    """Refuse what is no relative path inside a tree.

    Raises:
        ListingError: on absolute paths, ``.`` and ``..``, empty components, zero bytes.
    """
    if path == b"":
        return
    if b"\0" in path:
        raise ListingError(f"zero byte in path {escape(path)}")
    for part in path.split(b"/"):
        if part in (b"", b".", b".."):
            raise ListingError(f"not a path inside a tree: {escape(path)}")


def parents(path: bytes) -> Iterator[bytes]:
    """Yield the folders above a path, nearest first, the root last."""
    while path:
        path = path.rpartition(b"/")[0]
        yield path


class Listing(Mapping[bytes, Entry]):
    """An immutable tree in NAR order. Invariants: a root; every parent is a :class:`Directory`; names are legal."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[bytes, Entry]) -> None:
        """Take entries that already satisfy the invariants; use :meth:`of` for anything else."""
        self._entries = MappingProxyType(dict(entries))

    @classmethod
    def of(cls, entries: Mapping[bytes, Entry] | Iterable[tuple[bytes, Entry]]) -> Listing:
        """Build a listing, adding absent parents as folders.

        Raises:
            ListingError: on a path given twice, an illegal name, or a path below something that is no folder.
        """
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        found: dict[bytes, Entry] = {}
        for path, entry in pairs:
            check_path(path)
            if path in found:
                raise ListingError(f"the same path twice: {escape(path)}")
            if isinstance(entry, Symlink) and (not entry.target or b"\0" in entry.target):
                raise ListingError(f"illegal link target at {escape(path)}: {escape(entry.target)!r}")
            found[path] = entry
        for path in list(found):
            for parent in parents(path):
                above = found.setdefault(parent, DIRECTORY)
                if not isinstance(above, Directory):
                    raise ListingError(f"{escape(path)} lies below {escape(parent) or 'the root'}, which is no folder")
        if not found:
            found[b""] = DIRECTORY
        return cls({path: found[path] for path in sorted(found, key=nar_key)})

    def __getitem__(self, path: bytes) -> Entry:
        return self._entries[path]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listing) and self._entries == other._entries

    def __hash__(self) -> int:
        return hash(tuple(self._entries))

    def files(self) -> Iterator[tuple[bytes, File]]:
        """Yield the regular files in NAR order."""
        for path, entry in self._entries.items():
            if isinstance(entry, File):
                yield path, entry

    def below(self, prefix: bytes) -> Listing:
        """Return the subtree at a path as a tree of its own.

        Raises:
            KeyError: when there is nothing at that path.
        """
        if prefix == b"":
            return self
        start = prefix + b"/"
        inner: dict[bytes, Entry] = {b"": self._entries[prefix]}
        inner.update({p[len(start) :]: e for p, e in self._entries.items() if p.startswith(start)})
        return Listing(inner)

    def at(self, prefix: bytes) -> Listing:
        """Return the same tree moved below a path, with the folders above it."""
        if prefix == b"":
            return self
        return Listing.of({(prefix + b"/" + p if p else prefix): e for p, e in self._entries.items()})

    @property
    def size(self) -> int:
        """Bytes of all regular files."""
        return sum(entry.size for _, entry in self.files())


EMPTY = Listing.of({})
