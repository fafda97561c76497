# SPDX-License-Identifier: Apache-2.0
"""A capsule as it lies on disk, folder or tar: what it has by hash, and which releases it is of.

Edge: reads one folder or one file. Bytes are hashed as they pass.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from derive.canonical import Digest
from derive.capsule.layouts import FolderLayout, Layout, TarLayout, read_slice, unreadable
from derive.capsule.model import CapsuleDocument, read_document
from derive.capsule.oci import INDEX_FILE, LAYOUT_FILE, LIMIT, Listed, read_index, read_manifest, require_version
from derive.capsule.tar_index import Slice
from derive.errors import Corrupt, InputErrors, Missing, expected_got


class Capsule:
    """An opened capsule: a layout and the capsules that its index names. Reading a blob hashes it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is kept open."""

    @property
    def where(self) -> str:
        """What messages call it."""
        return self.layout.where

    def has(self, digest: Digest) -> bool:
        """Say whether a blob is there; its bytes are not hashed."""
        return self.layout.slice(digest) is not None

    def size(self, digest: Digest) -> int:
        """Return a blob's size in bytes; raises Missing."""
        return self._slice(digest)[1].size

    def read(self, digest: Digest) -> Iterator[bytes]:
        """Yield a blob in pieces; raises Missing, and Corrupt at its end when it is not what its name says."""
        path, at = self._slice(digest)
        hasher = hashlib.sha256()
        for piece in read_slice(path, at):
            hasher.update(piece)
            yield piece
        if hasher.hexdigest() != digest.hex:
            raise Corrupt(
                "a blob of the capsule is not what its name says",
                where=self.where,
                detail=expected_got(digest, f"sha256:{hasher.hexdigest()}"),
                hint="copy the capsule again from where it is whole",
            )

    def span(self, digest: Digest, offset: int, size: int) -> Iterator[bytes]:
        """Yield a slice of a blob, which is not hashed; raises Missing."""
        path, at = self._slice(digest)
        return read_slice(path, Slice(at.offset + offset, size))

    def small(self, digest: Digest) -> bytes:
        """Return a document whole; raises as :meth:`read`, and Corrupt when it is far too large."""
        if self.size(digest) > LIMIT:
            raise Corrupt(f"a document of more than {LIMIT} bytes", where=self.where, detail=[f"blob      {digest}"])
        return b"".join(self.read(digest))

    def require_layout(self) -> None:
        """Refuse what does not say that it is an OCI layout of the version that is read here; raises Corrupt."""
        data = self.layout.file(LAYOUT_FILE)
        if data is None:
            raise Corrupt(f"no {LAYOUT_FILE}, which every OCI layout has", where=self.where)
        require_version(data, f"{self.where}: {LAYOUT_FILE}")

    @cached_property
    def listed(self) -> tuple[Listed, ...]:
        """The capsules that the index names; raises Corrupt when there is no index, or it is no layout."""
        self.require_layout()
        data = self.layout.file(INDEX_FILE)
        if data is None:
            raise Corrupt(f"no {INDEX_FILE}, which every OCI layout has", where=self.where)
        return read_index(data, f"{self.where}: {INDEX_FILE}")

    @cached_property
    def releases(self) -> tuple[CapsuleDocument, ...]:
        """The documents of every capsule in the layout; raises Missing and Corrupt."""
        return tuple(document_of(one, self.small, self.where) for one in self.listed)

    def _slice(self, digest: Digest) -> tuple[str, Slice]:
        found = self.layout.slice(digest)
        if found is None:
            raise Missing(f"blob {digest.short} is not in the capsule", where=self.where, detail=[f"blob  {digest}"])
        return found


def document_of(listed: Listed, small: Callable[[Digest], bytes], where: str) -> CapsuleDocument:
    """Return the document of one capsule; ``small`` returns a blob whole, and its errors pass. Raises Corrupt."""
    where = f"{where}: {listed.name}"
    manifest = read_manifest(small(listed.manifest), where)
    return read_document(small(manifest.document.digest), where)


def read_documents(index: bytes, small: Callable[[Digest], bytes], where: str) -> tuple[CapsuleDocument, ...]:
    """Return the documents of the capsules that an index names; raises as :func:`document_of`."""
    return tuple(document_of(one, small, where) for one in read_index(index, f"{where}: {INDEX_FILE}"))


def proofs_of(documents: Iterable[CapsuleDocument]) -> dict[Digest, Digest]:
    """Return the proof of each NAR that has one."""
    return {nar: proof for one in documents for nar, proof in one.trees.items() if proof is not None}


def open_capsule(path: str | Path) -> Capsule:
    """Open a folder or a tar.

    Raises:
        InputErrors: when it is neither.
        Corrupt: when a tar ends early, or holds what no layout does.
        HostRefuses: when it cannot be read.
    """
    place = Path(path)
    try:
        mode = place.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise InputErrors.one("no capsule is there", where=str(path)) from None
    except OSError as error:
        raise unreadable(str(path), error) from error
    if stat.S_ISDIR(mode):
        return Capsule(FolderLayout(place))
    if stat.S_ISREG(mode):
        return Capsule(TarLayout(place))
    raise InputErrors.one("neither a folder nor a file", where=str(path))
