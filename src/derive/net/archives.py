# SPDX-License-Identifier: Apache-2.0
"""The places that keep artifacts by hash: asked when no mirror serves one, and left alone once they fail.

Edge: the network and folders of this machine.
"""

from __future__ import annotations

import os
import threading
from typing import assert_never

from derive.canonical import Digest
from derive.net.failures import Distrusted, Failure, Misfit, Refused, Skipped, Tried
from derive.net.places import ArchiveFolder, ArchivePlace, ArchiveSite, MirrorSource, Place, Wanted
from derive.net.progress import Progress
from derive.net.transfer import Transfer


class Archives:
    """The archives of one run, in order. ``offline`` leaves only the folders; ``own`` is the store's folder, if any."""

    def __init__(
        self, *, mirrors: MirrorSource, transfer: Transfer, progress: Progress, offline: bool, own: str | None
    ) -> None:
        self._mirrors = mirrors
        self._transfer = transfer
        self._progress = progress
        self._offline = offline
        self._own = own
        self._guard = threading.Lock()
        self._down: dict[ArchivePlace, str] = {}
        self._used: set[ArchivePlace] = set()

    def places(self) -> tuple[ArchivePlace, ...]:
        """Return the archives that may be asked; raises InputErrors where they are wrongly configured."""
        every = self._mirrors.archives()
        if self._offline:
            return tuple(place for place in every if isinstance(place, ArchiveFolder))
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

    def folder_with(self, digest: Digest) -> ArchiveFolder | None:
        """Return a folder in which a file of that name lies, without reading it."""
        for place in self.places():
            if isinstance(place, ArchiveFolder) and os.path.isfile(by_hash(place.path, digest)):  # noqa: PTH113
                return place
        return None

    def _bring(self, place: ArchivePlace, wanted: Wanted, *, reuse: bool) -> None:
        reason = self._down.get(place)
        if reason is not None:
            raise Skipped(reason)
        match place:
            case ArchiveFolder(path=path):
                self._look_at(place)
                self._transfer.from_file(wanted, by_hash(path, wanted.sha256), reuse=reuse)
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
