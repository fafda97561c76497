# SPDX-License-Identifier: Apache-2.0
"""The places that keep artifacts by hash: asked when no mirror serves one, and left alone once they fail.

Edge: the network, folders and files of this machine.

A place keeps a tree as its NAR, named by the NAR's hash. What proves that a tree is a git commit's is said by the
documents of the capsules that the place's index names.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from derive.canonical import Digest
from derive.errors import DeriveError
from derive.net.failures import Distrusted, Failure, Gone, Misfit, Refused, Skipped, Tried
from derive.net.places import ArchiveFolder, ArchivePlace, ArchiveSite, ArchiveTar, MirrorSource, Place, Wanted
from derive.net.progress import Progress
from derive.net.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from derive.capsule.model import CapsuleDocument
    from derive.capsule.tar_index import Slice
    from derive.net.http import Client


class Archives:
    """The archives of one run, in order. ``offline`` leaves those of this machine; ``own`` is the store's folder."""

    def __init__(
        self,
        *,
        mirrors: MirrorSource,
        transfer: Transfer,
        client: Client,
        progress: Progress,
        offline: bool,
        own: str | None,
    ) -> None:
        self._mirrors = mirrors
        self._transfer = transfer
        self._client = client
        self._progress = progress
        self._offline = offline
        self._own = own
        self._guard = threading.Lock()
        self._down: dict[ArchivePlace, str] = {}
        self._used: set[ArchivePlace] = set()
        self._tars: dict[str, dict[Digest, Slice]] = {}
        self._documents: dict[ArchivePlace, tuple[CapsuleDocument, ...]] = {}

    def places(self) -> tuple[ArchivePlace, ...]:
        """Return the archives that may be asked; raises InputErrors where they are wrongly configured."""
        every = self._mirrors.archives()
        if self._offline:
            return tuple(place for place in every if not isinstance(place, ArchiveSite))
        return every

    def bring(self, wanted: Wanted, tried: list[Tried], *, reuse: bool) -> ArchivePlace | None:
        """Bring an artifact from the first archive that has it, and return that; ``tried`` grows by those that fail."""
        for place in self.places():
            try:
                self._bring(place, wanted, reuse=reuse)
            except Failure as failure:
                tried.append(Tried(place=f"{place}", failure=failure))
            else:
                self._once(self._used, place, f"what no mirror serves comes from the archive {place}")
                return place
        return None

    def local_with(self, digest: Digest) -> ArchiveFolder | ArchiveTar | None:
        """Return a place of this machine that has a file of that name, without reading it."""
        for place in self.places():
            match place:
                case ArchiveFolder(path=path):
                    if os.path.isfile(by_hash(path, digest)):  # noqa: PTH113 - asked for each artifact of a plan
                        return place
                case ArchiveTar():
                    if digest in self._slices(place, quiet=True):
                        return place
                case ArchiveSite():
                    pass
                case _:
                    assert_never(place)
        return None

    def proof_of(self, nar: Digest) -> Digest | None:
        """Return the blob that proves which commit's tree a NAR is, where a capsule of some place names one."""
        from derive.capsule.read import proofs_of

        for place in self.places():
            proof = proofs_of(self._documents_of(place)).get(nar)
            if proof is not None:
                return proof
        return None

    def _bring(self, place: ArchivePlace, wanted: Wanted, *, reuse: bool) -> None:
        reason = self._down.get(place)
        if reason is not None:
            raise Skipped(reason)
        if wanted.size is None:
            wanted = replace(wanted, size=self._size_of(wanted.sha256, place))
        match place:
            case ArchiveFolder(path=path):
                self._look_at(place)
                self._transfer.from_file(wanted, by_hash(path, wanted.sha256), reuse=reuse)
            case ArchiveTar(path=path):
                at = self._slices(place).get(wanted.sha256)
                if at is None:
                    raise Gone("has no such file")
                self._transfer.from_file(wanted, path, reuse=reuse, span=(at.offset, at.size))
            case ArchiveSite(url=url):
                try:
                    self._transfer.from_url(wanted, Place(url=by_hash(url, wanted.sha256)), reuse=reuse)
                except (Misfit, Skipped, Distrusted):  # this file alone, or said already
                    raise
                except Refused as failure:
                    self._mark_down(place, failure.reason)
                    raise
            case _:
                assert_never(place)

    def _look_at(self, place: ArchiveFolder) -> None:
        """Refuse a folder that cannot be listed, and the store's own: it has been looked into."""
        try:
            with os.scandir(place.path):
                pass
            own = self._own is not None and os.path.samefile(place.path, self._own)  # noqa: PTH121
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self._mark_down(place, reason)
            raise Refused(reason) from error
        if own:
            raise Refused("is the store itself")

    def _slices(self, place: ArchiveTar, *, quiet: bool = False) -> Mapping[Digest, Slice]:
        """Return where the blobs lie in a tar; one that cannot be used has none, and is said once unless ``quiet``."""
        from derive.capsule.layouts import index_of_tar

        with self._guard:
            known = self._tars.get(place.path)
        if known is not None:
            return known
        try:
            found = index_of_tar(place.path).blobs
        except DeriveError as error:
            if quiet:
                return {}
            self._mark_down(place, error.message)
            raise Refused(error.message) from error
        with self._guard:
            return self._tars.setdefault(place.path, found)

    def _size_of(self, digest: Digest, place: ArchivePlace) -> int | None:
        """Return the size in bytes that the capsules of a place state for what no lock states one for."""
        parts = (part for one in self._documents_of(place) for part in one.parts)
        return next((part.size for part in parts if part.digest == digest), None)

    def _documents_of(self, place: ArchivePlace) -> tuple[CapsuleDocument, ...]:
        """Return what the capsules of a place say; nothing where there is none, or where they cannot be read."""
        if place not in self._documents:
            self._documents[place] = self._read_documents(place)
        return self._documents[place]

    def _read_documents(self, place: ArchivePlace) -> tuple[CapsuleDocument, ...]:
        from derive.capsule.read import open_capsule, read_documents

        try:
            if not isinstance(place, ArchiveSite):
                return open_capsule(place.path).releases
            index = self._document(f"{place.url}/index.json")
            return read_documents(index, lambda one: self._document(by_hash(place.url, one)), f"{place}")
        except (DeriveError, Failure):
            return ()

    def _document(self, url: str) -> bytes:
        """Return a small file of a site; what is said in it is checked against what it is said of."""
        return self._client.get(url).body

    def _mark_down(self, place: ArchivePlace, reason: str) -> None:
        with self._guard:
            known = place in self._down
            self._down.setdefault(place, reason)
        if not known:
            self._progress.note(f"the archive {place} cannot be used ({reason}): skipped from now on")

    def _once(self, said: set[ArchivePlace], place: ArchivePlace, message: str) -> None:
        with self._guard:
            known = place in said
            said.add(place)
        if not known:
            self._progress.note(message)


def by_hash(base: str, digest: Digest) -> str:
    """Return where an archive keeps an artifact, below its folder or its URL."""
    return f"{base.rstrip('/')}/blobs/sha256/{digest.hex}"
