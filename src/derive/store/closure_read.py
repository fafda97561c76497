# SPDX-License-Identifier: Apache-2.0
"""Opens a closure file: what it says it holds, read and checked first; its members, checked as they are read.

Edge: reads one file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, DeriveError, HostRefuses, InputErrors, expected_got
from derive.images.tar import BLOCK, END
from derive.store.closure import Closure, read_closure
from derive.store.closure_check import MANIFEST, require_coherent
from derive.store.closure_file import MANIFEST_LIMIT, STATEMENT, Member, Tree, members, padding, size_in
from derive.store.closure_listing import read_listing
from derive.store.protocol import CHUNK
from derive.trees.listing import Listing
from derive.trust.dsse import Envelope
from derive.trust.statement import Statement, read_statement


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureFile:
    """An open closure file whose parts agree. No signature is checked here."""

    path: Path
    digest: Digest
    closure: Closure
    statement: Statement
    envelope: Envelope
    members: tuple[Member, ...]
    file: IO[bytes]

    def pieces(self, member: Member) -> Iterator[bytes]:
        """Yield a member's contents, which the caller hashes; raises Corrupt when the file ends early."""
        left = member.contents.size
        self.file.seek(member.offset)
        while left:
            piece = self.file.read(min(CHUNK, left))
            if not piece:
                raise Corrupt(f"{member.name}: the file ends early", where=str(self.path))
            left -= len(piece)
            yield piece

    def read(self, member: Member) -> bytes:
        """Return a small member's contents; raises Corrupt when they are not those named."""
        if member.contents.size > MANIFEST_LIMIT:
            raise Corrupt(f"{member.name} is larger than any that is read", where=str(self.path))
        data = b"".join(self.pieces(member))
        if sha256(data) != member.contents.digest:
            raise self.altered(member)
        return data

    def altered(self, member: Member) -> Corrupt:
        """Return the error for contents that are not those named."""
        detail = [f"expected  {member.contents.digest}"]
        return Corrupt(f"{member.name} is altered", where=str(self.path), detail=detail, hint=_AGAIN)

    def listings(self) -> Mapping[Digest, Listing]:
        """Read the listings of all trees.

        Raises:
            Corrupt: when one is altered, is no listing, or has contents outside the blobs of the closure.
        """
        blobs = {blob.digest: blob.size for blob in self.closure.blobs}
        found = {}
        for member in self.members:
            if isinstance(member.what, Tree):
                found[member.what.digest] = read_listing(self.read(member), member.what.digest, blobs)
        return found


_AGAIN = "get the file again: it was changed, or damaged on its way"


@contextmanager
def open_closure(path: Path) -> Iterator[ClosureFile]:
    """Open a closure file, and read and check what it says it holds.

    Raises:
        InputErrors: when there is no such file.
        HostRefuses: when it cannot be read.
        Corrupt: when it is no closure file, is cut short, altered in its frame, or its parts do not agree.
    """
    with _opened(path) as file:
        try:
            found = _read(path, file)
        except DeriveError as error:
            error.where = error.where or str(path)
            raise
        yield found


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        file = open(path, "rb", opener=_opener)  # noqa: SIM115 - pathlib takes no opener; closed below
    except FileNotFoundError:
        raise InputErrors.one("no such file", where=str(path)) from None
    except OSError as error:
        raise HostRefuses(f"cannot be read: {(error.strerror or '').lower()}", where=str(path)) from error
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InputErrors.one("a closure is one ordinary file", where=str(path))
        yield file


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe of that name would be waited for


def _read(path: Path, file: IO[bytes]) -> ClosureFile:
    actual = os.fstat(file.fileno()).st_size
    manifest = _first(file, MANIFEST, actual)
    envelope_bytes = _first(file, STATEMENT, actual)
    statement, envelope = read_statement(envelope_bytes)
    digest = sha256(manifest)
    about = [(subject.name, subject.digest) for subject in statement.subjects]
    if about != [(MANIFEST, digest)]:
        named = about[0][1] if len(about) == 1 else "something else"
        raise Corrupt(f"{MANIFEST} is not what the statement is about", detail=expected_got(named, digest), hint=_AGAIN)
    closure = read_closure(manifest)
    rest, size = members(closure, file.tell())
    if size != actual:
        what = "the file is cut short" if actual < size else "something follows the end of the closure"
        raise Corrupt(what, detail=expected_got(f"{size} bytes", f"{actual} bytes"), hint=_AGAIN)
    _check_frame(file, rest, size)
    require_coherent(closure, statement)
    return ClosureFile(
        path=path,
        digest=digest,
        closure=closure,
        statement=statement,
        envelope=envelope,
        members=rest,
        file=file,
    )


def _first(file: IO[bytes], name: str, actual: int) -> bytes:
    size = size_in(file.read(BLOCK), name)
    if file.tell() + size > actual:
        raise Corrupt(f"{name}: the file is cut short", hint=_AGAIN)
    data = file.read(size)
    if file.read(len(padding(size))) != padding(size):
        raise Corrupt(f"something other than zeros follows {name}")
    return data


def _check_frame(file: IO[bytes], rest: tuple[Member, ...], size: int) -> None:
    """Compare everything that is no contents with what has to be there."""
    for member in rest:
        file.seek(member.offset - len(member.header))
        if file.read(len(member.header)) != member.header:
            raise Corrupt(f"another header than that of {member.name}", hint=_AGAIN)
        file.seek(member.offset + member.contents.size)
        if file.read(len(padding(member.contents.size))) != padding(member.contents.size):
            raise Corrupt(f"something other than zeros follows {member.name}", hint=_AGAIN)
    file.seek(size - len(END))
    if file.read() != END:
        raise Corrupt("the end of the archive is altered", hint=_AGAIN)
