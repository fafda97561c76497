# SPDX-License-Identifier: Apache-2.0
"""How a closure file is laid out: a tar whose every byte but the contents follows from the manifest.

Core: no IO.

A reader needs no tar parser: it knows which header comes next, and takes no other. Names and sizes in the file are thus
compared, never followed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from derive.canonical import Digest, sha256
from derive.errors import Corrupt
from derive.images.modes import Attributes
from derive.images.tar import BLOCK, END, header
from derive.store.closure import Closure, Sized
from derive.store.closure_check import MANIFEST
from derive.trees.listing import File

STATEMENT = "statement.dsse.json"
MANIFEST_LIMIT = 1 << 30
"""Bytes of the largest manifest, statement or listing that is read: they are held in memory."""

_SIZE = re.compile(rb"[0-7]{11}\0")
_ANY = sha256(b"")


@dataclass(frozen=True, slots=True)
class Tree:
    """A member that is the listing of a tree."""

    digest: Digest


@dataclass(frozen=True, slots=True)
class Log:
    """A member that is the log of a derivation."""

    derivation: Digest


@dataclass(frozen=True, slots=True)
class Blob:
    """A member that is a blob."""

    digest: Digest


What: TypeAlias = Tree | Log | Blob


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file of the archive: its contents begin at ``offset``, after the header that ends there."""

    what: What
    name: str
    contents: Sized
    header: bytes
    offset: int


def member_header(name: str, size: int) -> bytes:
    """Return the header blocks of a file in the archive; its owner, mode and time are always the same."""
    return header(name.encode(), File(executable=False, size=size, sha256=_ANY), Attributes(0o644, 0, 0))


def padding(size: int) -> bytes:
    """Return the zeros that follow contents up to a whole block."""
    return b"\0" * (-size % BLOCK)


def size_in(block: bytes, name: str) -> int:
    """Return the size that the header block of one of the first two members states.

    Raises:
        Corrupt: when the block is not that header, or the size is more than can be read.
    """
    field = block[124:136]
    size = int(field[:-1], 8) if _SIZE.fullmatch(field) else -1
    if size < 0 or member_header(name, size) != block:
        raise Corrupt(f"not a closure file: no {name} where one begins")
    if size > MANIFEST_LIMIT:
        raise Corrupt(f"{name} is larger than any closure's: {size} bytes")
    return size


def start(manifest: bytes, statement: bytes) -> bytes:
    """Return the first two members, from the first byte of the file."""
    parts = ((MANIFEST, manifest), (STATEMENT, statement))
    return b"".join(member_header(name, len(data)) + data + padding(len(data)) for name, data in parts)


def members(closure: Closure, offset: int) -> tuple[tuple[Member, ...], int]:
    """Return the members that follow the first two, which end at ``offset``, and the size of the whole file."""
    wanted: list[tuple[What, str, Sized]] = [
        (Tree(tree.digest), f"trees/{tree.digest.hex}.json", tree.listing) for tree in closure.trees
    ]
    logs = sorted(
        {(one.log_of, one.log) for one in closure.histories if one.log is not None and one.log_of is not None}
    )
    wanted += [(Log(name), f"logs/{name.hex}.log", log) for name, log in logs]
    wanted += [(Blob(blob.digest), f"blobs/sha256/{blob.digest.hex}", blob) for blob in closure.blobs]
    found = []
    for what, name, contents in wanted:
        head = member_header(name, contents.size)
        offset += len(head)
        found.append(Member(what=what, name=name, contents=contents, header=head, offset=offset))
        offset += contents.size + len(padding(contents.size))
    return tuple(found), offset + len(END)
