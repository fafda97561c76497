# SPDX-License-Identifier: Apache-2.0
"""Writes a layout as one tar into a file that may hold the beginning of it already.

Edge: reads and writes one open file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import IO

from derive.canonical import Digest, sha256
from derive.capsule.oci import INDEX_FILE, LAYOUT, LAYOUT_FILE
from derive.capsule.whole import Whole
from derive.errors import Corrupt, expected_got
from derive.images.modes import ModeTable
from derive.images.tar import END, Contents, End, Header, Piece, headers
from derive.store.protocol import CHUNK
from derive.trees.listing import Entry, File, Listing


def tar_size(whole: Whole) -> int:
    """Return the size in bytes of the tar of a layout."""
    return sum(_size(piece) for piece in _pieces(whole))


def write_tar(whole: Whole, file: IO[bytes]) -> None:
    """Write the tar of a layout; what stands in the file already is kept as far as it is the tar's beginning.

    Raises:
        Corrupt: when a blob is not what its name says.
    """
    texts = {sha256(text): text for text in (LAYOUT, whole.index)}
    is_new, offset = False, 0
    for piece in _pieces(whole):
        is_new = is_new or not _stands(file, offset, piece)
        if is_new:
            file.truncate(offset)
            file.seek(offset)
            _write(file, piece, whole, texts)
        offset += _size(piece)
    file.truncate(offset)
    file.flush()
    os.fsync(file.fileno())


def _pieces(whole: Whole) -> Iterator[Piece]:
    texts = {LAYOUT_FILE: LAYOUT, INDEX_FILE: whole.index}
    entries: dict[bytes, Entry] = {name.encode(): _file(sha256(data), len(data)) for name, data in texts.items()}
    entries |= {f"blobs/sha256/{digest.hex}".encode(): _file(digest, size) for digest, size in whole.blobs.items()}
    return headers(Listing.of(entries).items(), ModeTable())


def _file(digest: Digest, size: int) -> File:
    return File(executable=False, size=size, sha256=digest)


def _size(piece: Piece) -> int:
    match piece:
        case Header(data=data):
            return len(data)
        case Contents(file=file):
            return file.size + len(piece.padding)
        case End():
            return len(END)


def _stands(file: IO[bytes], offset: int, piece: Piece) -> bool:
    """Say whether an earlier run wrote a piece whole; contents are hashed, so that a torn page is found."""
    if os.fstat(file.fileno()).st_size < offset + _size(piece):
        return False
    file.seek(offset)
    if not isinstance(piece, Contents):
        return file.read(_size(piece)) == (piece.data if isinstance(piece, Header) else END)
    hasher, left = hashlib.sha256(), piece.file.size
    while left:
        part = file.read(min(CHUNK, left))
        hasher.update(part)
        left -= len(part)
    return hasher.hexdigest() == piece.file.sha256.hex and file.read(len(piece.padding)) == piece.padding


def _write(file: IO[bytes], piece: Piece, whole: Whole, texts: dict[Digest, bytes]) -> None:
    match piece:
        case Header(data=data):
            file.write(data)
        case Contents(file=entry):
            text = texts.get(entry.sha256)
            pieces = whole.read(entry.sha256) if text is None else iter((text,))
            file.writelines(checked(entry.sha256, pieces, entry.size))
            file.write(piece.padding)
        case End():
            file.write(END)


def checked(digest: Digest, pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Pass a blob on, and raise Corrupt at its end when it is not what its name says; ``size`` is in bytes."""
    hasher, seen = hashlib.sha256(), 0
    for piece in pieces:
        hasher.update(piece)
        seen += len(piece)
        yield piece
    if seen != size:
        detail = [f"blob      {digest}", *expected_got(f"{size} bytes", f"{seen} bytes")]
        raise Corrupt("what was to be packed has another size", detail=detail, hint="run: derive store verify")
    if hasher.hexdigest() != digest.hex:
        detail = [f"blob      {digest}", *expected_got(digest, f"sha256:{hasher.hexdigest()}")]
        raise Corrupt("what was to be packed is not what its name says", detail=detail, hint="run: derive store verify")
