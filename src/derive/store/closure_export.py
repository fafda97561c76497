# SPDX-License-Identifier: Apache-2.0
"""Writes a closure as one file.

Edge: reads the store, writes one file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, expected_got
from derive.images.tar import END
from derive.outfile import open_output
from derive.store.closure_file import Blob, Log, Member, Tree, members, padding, start
from derive.store.closure_gather import Gathered
from derive.store.protocol import Store
from derive.trust.keys import SigningKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A written closure file: the digest of its manifest, its size in bytes, and the ids of the keys that signed it."""

    digest: Digest
    size: int
    signed_by: tuple[Digest, ...]


def export_closure(store: Store, gathered: Gathered, destination: str | Path, keys: Sequence[SigningKey]) -> Exported:
    """Write a closure file, as :func:`open_output` does; an existing file is replaced once the new one is whole.

    Raises:
        InputErrors: when the destination is a folder, or lies in none.
        Missing, Corrupt: when the store lost a blob meanwhile, or one is not what its name says.
        HostRefuses: when the destination cannot be written.
    """
    manifest = gathered.closure.encoded()
    envelope = gathered.statement.signed(keys)
    begun = start(manifest, envelope.encoded())
    rest, size = members(gathered.closure, len(begun))
    with open_output(destination) as file:
        file.write(begun)
        for member in rest:
            file.write(member.header)
            file.writelines(_checked(member, _contents(store, gathered, member)))
            file.write(padding(member.contents.size))
        file.write(END)
    signed_by = tuple(signature.key for signature in envelope.signatures)
    return Exported(digest=sha256(manifest), size=size, signed_by=signed_by)


def _contents(store: Store, gathered: Gathered, member: Member) -> Iterable[bytes]:
    match member.what:
        case Tree(digest):
            return (gathered.listings[digest],)
        case Log(derivation):
            return (gathered.logs[derivation],)
        case Blob(digest):
            pack = gathered.packs.get(digest)
            return store.read_blob(digest) if pack is None else pack.read(store)
        case _:
            assert_never(member.what)


def _checked(member: Member, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pass contents on, and raise at their end when they are not those that the manifest names."""
    hasher = hashlib.sha256()
    for piece in pieces:
        hasher.update(piece)
        yield piece
    if hasher.hexdigest() != member.contents.digest.hex:
        detail = expected_got(member.contents.digest, f"sha256:{hasher.hexdigest()}")
        raise Corrupt(f"{member.name} is not what its name says", detail=detail, hint="derive store verify says more")
