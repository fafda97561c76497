# SPDX-License-Identifier: Apache-2.0
"""One blob into a repository: whole when it is small, else piece by piece, and on from where a connection broke.

Edge: the network, by way of the repository, and the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from derive.canonical import Digest
from derive.errors import expected_got
from derive.images.oci import Descriptor
from derive.net.failures import Broken, Failure, Gone, Refused, Wrong
from derive.net.http import Answer, Body
from derive.net.progress import Progress
from derive.oci.answers import received, smallest_chunk, stated_digest, upload_url
from derive.oci.remote import Remote
from derive.oci.urls import finish_url
from derive.store.blobs import damaged

Moved: TypeAlias = Literal["uploaded", "mounted", "there"]
"""How a blob came into the repository: sent, taken from another one, or brought meanwhile by somebody else."""

CHUNK = 64 << 20
"""Bytes sent at once. A registry that loses what a broken connection brought loses no more than that."""

_LOST = frozenset((400, 404, 410, 416))
"""What registries say to an upload that they do not know any more, or not as we do."""


class Source(Protocol):
    """Where the bytes of blobs come from: a store, or what has put them together."""

    def read_blob(self, digest: Digest, offset: int = 0, size: int | None = None) -> Iterator[bytes]:
        """Yield a slice of a blob."""

    def blob_path(self, digest: Digest) -> Path:
        """Return the blob's file, or what stands for it where a person is told that it is damaged."""


def upload(
    store: Source, remote: Remote, blob: Descriptor, progress: Progress, *, source: str = "", chunk: int = CHUNK
) -> Moved:
    """Bring a blob of the store into a repository; ``source`` is another one that the registry may take it from.

    Raises:
        Failure: when it could not be brought.
        Corrupt: when the store's own bytes are damaged.
    """
    task = _Upload(store, remote, blob, progress, source, chunk)
    progress.start(blob.digest.short, blob.size)
    try:
        return remote.client.retry(remote.begin_url(), task.attempt, lambda: task.best)
    finally:
        progress.done(blob.digest.short)


class _Upload:
    """One upload over all its attempts. ``best`` is how far any of them came, in bytes that the registry has."""

    def __init__(
        self, store: Source, remote: Remote, blob: Descriptor, progress: Progress, source: str, chunk: int
    ) -> None:
        self._store = store
        self._remote = remote
        self._blob = blob
        self._progress = progress
        self._source = source
        self._chunk = chunk
        self._url: str | None = None
        self._asked_before = False
        self._offset = 0
        self._shown = 0
        self.best = 0

    def attempt(self) -> Moved:
        """Go on, or begin; raises Failure, after which it may be called again."""
        if self._url is not None:
            self._ask()
        if self._url is None:
            moved = self._begin()
            if moved is not None:
                return moved
        try:
            if self._blob.size > self._chunk:
                while self._offset < self._blob.size:
                    self._send_piece()
            self._finish()
        except Failure:
            self._show(self._offset)
            raise
        return "uploaded"

    def _begin(self) -> Moved | None:
        """Open an upload; say so where none is needed."""
        if self._asked_before and self._is_there():
            return "there"
        mount = self._blob.digest if self._source and not self._asked_before else None
        self._asked_before = True
        url = self._remote.begin_url(mount=mount, source=self._source)
        try:
            answer = self._remote.call("POST", url)
        except Refused as failure:
            if mount is None or failure.status not in (401, 403):
                raise
            url = self._remote.begin_url()  # we may not read there: what it would have spared is sent
            answer = self._remote.call("POST", url)
        self._show(0)
        if answer.status == 201:
            self._show(self._blob.size)
            return "mounted"
        self._chunk = max(self._chunk, smallest_chunk(answer.headers))
        self._offset = 0
        self._url = self._next(url, answer)
        return None

    def _ask(self) -> None:
        """Find out how much the registry has; an upload that it does not know any more is forgotten here, too."""
        url, self._url = self._url, None
        assert url is not None
        try:
            answer = self._remote.call("GET", url)
        except (Gone, Refused) as failure:
            if failure.status not in _LOST:
                raise
            return
        except Broken:
            self._url = url  # it was no answer: ask again
            raise
        offset = received(answer.headers)
        if offset is None or offset > self._blob.size or self._blob.size <= self._chunk:
            return
        self._url = self._next(url, answer) if answer.headers.get("location") else url
        self._count(offset)

    def _send_piece(self) -> None:
        end = min(self._offset + self._chunk, self._blob.size)
        answer = self._send("PATCH", self._required(), self._offset, end)
        offset = received(answer.headers)
        if offset is not None and offset != end:
            raise self._lost(Broken(f"the registry took {offset} bytes of {end}"))
        self._url = self._next(self._required(), answer)
        self._count(end)

    def _finish(self) -> None:
        url = finish_url(self._required(), self._blob.digest)
        try:
            answer = self._send("PUT", url, self._offset, self._blob.size)
        except Broken as failure:
            if failure.status == 400:
                self._check_own()
            raise
        if stated_digest(answer.headers) not in (None, self._blob.digest):
            self._url = None
            raise Wrong("took other bytes", expected_got(self._blob.digest, stated_digest(answer.headers)))
        self._count(self._blob.size)

    def _send(self, method: str, url: str, start: int, end: int) -> Answer:
        headers = {"Content-Type": "application/octet-stream"}
        if method == "PATCH":
            headers["Content-Range"] = f"{start}-{end - 1}"
        body = Body(size=end - start, read=lambda: self._pieces(start, end))
        try:
            return self._remote.call(method, url, headers=headers, body=body)
        except (Gone, Refused) as failure:
            if failure.status not in _LOST:
                raise
            raise self._lost(failure) from failure

    def _pieces(self, start: int, end: int) -> Iterator[bytes]:
        self._show(start)
        for piece in self._store.read_blob(self._blob.digest, start, end - start):
            yield piece
            self._show(self._shown + len(piece))

    def _lost(self, failure: Failure) -> Broken:
        """Forget an upload that the registry does not go on with; the blob begins anew at the next attempt."""
        self._url = None
        return Broken(failure.reason, status=failure.status, headers=failure.headers)

    def _next(self, url: str, answer: Answer) -> str:
        found = upload_url(url, answer.headers)
        if found is None:
            raise Refused("does not say where the upload goes on, or not by TLS")
        return found

    def _required(self) -> str:
        assert self._url is not None
        return self._url

    def _is_there(self) -> bool:
        """Say whether the blob is there after all: the answer to its last bytes may be what got lost."""
        is_there, size = self._remote.head_blob(self._blob.digest)
        if is_there and size in (None, self._blob.size):
            self._count(self._blob.size)
            return True
        return False

    def _check_own(self) -> None:
        """Look whether it is the store whose bytes are wrong."""
        hasher = hashlib.sha256()
        for piece in self._store.read_blob(self._blob.digest):
            hasher.update(piece)
        if hasher.hexdigest() != self._blob.digest.hex:
            raise damaged(self._store.blob_path(self._blob.digest), self._blob.digest, hasher.hexdigest())

    def _count(self, offset: int) -> None:
        self._offset = offset
        self.best = max(self.best, offset)
        self._show(offset)

    def _show(self, offset: int) -> None:
        """Tell how far it is; what has to be sent again is taken back."""
        if offset != self._shown:
            self._progress.advance(self._blob.digest.short, offset - self._shown)
            self._shown = offset
