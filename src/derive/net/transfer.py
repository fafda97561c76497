# SPDX-License-Identifier: Apache-2.0
"""One artifact from one place into the store: resumed, checked, and never half there.

Edge: the network and the store.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from derive.errors import Corrupt, HostRefuses, expected_got
from derive.net.failures import Broken, Gone, Misfit, Refused, Wrong
from derive.net.http import Client
from derive.net.places import Place, Wanted
from derive.net.progress import Progress
from derive.store.partial import PartialWriter, partial_writer
from derive.store.protocol import CHUNK, BlobWriter, Store

if TYPE_CHECKING:
    import requests

_More: TypeAlias = Callable[[BlobWriter], int]
"""Appends what a blob still lacks, and returns from how many answers it came."""


class Transfer:
    """Brings artifacts into one store, by one client. Safe for several threads when the store is."""

    def __init__(self, *, store: Store, client: Client, progress: Progress) -> None:
        self._store = store
        self._client = client
        self._progress = progress

    def from_url(self, wanted: Wanted, place: Place, *, reuse: bool) -> None:
        """Bring an artifact from a URL. With ``reuse``, another process that brought it meanwhile is enough.

        Raises:
            Failure: the place did not serve it; what had come stays for the next try, but for wrong bytes.
            HostRefuses: no space is left.
        """

        def more(writer: BlobWriter) -> int:
            answers = 0

            def once() -> None:
                nonlocal answers
                answers += 1
                self._append(writer, wanted, place)

            self._client.retry(place.url, once, lambda: writer.size)
            return answers

        self._bring(wanted, more, reuse=reuse)

    def from_file(self, wanted: Wanted, path: str, *, reuse: bool, span: tuple[int, int] | None = None) -> None:
        """Bring an artifact from a file of this machine, or from a ``span`` of one (offset, size in bytes).

        Raises as :meth:`from_url`.
        """

        def more(writer: BlobWriter) -> int:
            self._copy(writer, wanted, path, span)
            return 1

        self._bring(wanted, more, reuse=reuse)

    def _bring(self, wanted: Wanted, more: _More, *, reuse: bool) -> None:
        self._progress.start(wanted.file, wanted.size)
        try:
            if not self._attempt(wanted, more, reuse=reuse):
                # It was put together from several answers that may not belong together: once more, from nothing.
                self._attempt(wanted, more, reuse=reuse, fresh=True)
        except OSError as error:
            raise _unwritable(error, wanted) from error
        finally:
            self._progress.done(wanted.file)

    def _attempt(self, wanted: Wanted, more: _More, *, reuse: bool, fresh: bool = False) -> bool:
        """Bring a whole blob. Return False when joined pieces came out wrong and it is worth another go."""
        wait = self._client.pause
        with partial_writer(self._store, wanted.sha256, size=wanted.size, wait=wait, fresh=fresh) as writer:
            if reuse and self._store.has_blob(wanted.sha256):
                return True
            resumed, answers = writer.size, 0
            self._progress.advance(wanted.file, resumed)
            try:
                answers = more(writer)
                writer.commit(wanted.sha256)
            except Misfit:
                if fresh or not writer.size:
                    raise
                return False
            except Wrong:
                if isinstance(writer, PartialWriter):
                    writer.withdraw(resumed)
                raise
            except Corrupt as error:
                if (resumed or answers > 1) and not fresh:
                    return False
                raise Wrong("served other bytes", error.detail) from error
        return True

    def _append(self, writer: BlobWriter, wanted: Wanted, place: Place) -> None:
        if writer.size and writer.size == wanted.size:
            return
        authorise = place.authorise
        if authorise is None:
            self._append_as(writer, wanted, place, None)
            return
        try:
            self._append_as(writer, wanted, place, authorise(None))
        except Refused as failure:
            renewed = authorise(failure) if failure.status == 401 else None
            if renewed is None:
                raise
            self._append_as(writer, wanted, place, renewed)

    def _append_as(self, writer: BlobWriter, wanted: Wanted, place: Place, authorization: str | None) -> None:
        offset = writer.size
        opened = self._client.stream(place.url, offset=offset, proxy=place.proxy, authorization=authorization)
        try:
            with opened as (response, pieces):
                _check_length(response, wanted, offset)
                self._write(writer, wanted, _from(pieces, offset if response.status_code == 200 else 0))
        except Refused as failure:
            if failure.status == 416 and offset:
                raise Misfit(f"has no more than {offset} bytes of it", status=416) from failure
            raise

    def _write(self, writer: BlobWriter, wanted: Wanted, pieces: Iterator[bytes]) -> None:
        for piece in pieces:
            if wanted.size is not None and writer.size + len(piece) > wanted.size:
                raise Wrong("served a longer file", expected_got(f"{wanted.size} bytes", "more"))
            writer.write(piece)
            self._progress.advance(wanted.file, len(piece))
        if wanted.size is not None and writer.size < wanted.size:
            raise Broken(f"the file ends after {writer.size} of {wanted.size} bytes")

    def _copy(self, writer: BlobWriter, wanted: Wanted, path: str, span: tuple[int, int] | None) -> None:
        fd = _open_file(path)
        try:
            start, size = (0, os.fstat(fd).st_size) if span is None else span
            if wanted.size is not None and size != wanted.size:
                raise Wrong("holds a file of another size", expected_got(f"{wanted.size} bytes", f"{size} bytes"))
            self._write(writer, wanted, self._pieces(fd, start + writer.size, start + size))
        finally:
            os.close(fd)

    def _pieces(self, fd: int, offset: int, end: int) -> Iterator[bytes]:
        while offset < end:
            self._client.check_stopped()
            try:
                piece = os.pread(fd, min(CHUNK, end - offset), offset)
            except OSError as error:
                raise Refused(f"cannot be read: {(error.strerror or str(error)).lower()}") from error
            if not piece:
                return
            yield piece
            offset += len(piece)


def _unwritable(error: OSError, wanted: Wanted) -> Exception:
    """Say what stops the store from taking a file; anything else is a mistake of ours and stays what it is."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return HostRefuses(
            f"no space left in the store for {wanted.file}",
            hint="free some space, or name another --store; most of what has come is kept",
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return HostRefuses(
            f"the store cannot be written to, and {wanted.file} is not in it",
            hint="name a folder that can be written with --store or DERIVE_STORE",
        )
    return error


def _open_file(path: str) -> int:
    """Open a regular file for reading; raises Gone or Refused."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe without a writer is not waited for
    except FileNotFoundError as error:
        raise Gone("has no such file") from error
    except OSError as error:
        raise Refused(f"cannot be read: {(error.strerror or str(error)).lower()}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Refused("holds something else than a file there")
    return fd


def _from(pieces: Iterator[bytes], skip: int) -> Iterator[bytes]:
    """Yield pieces without their first ``skip`` bytes: a host that ignores Range sends them again."""
    for piece in pieces:
        if skip >= len(piece):
            skip -= len(piece)
            continue
        yield piece[skip:] if skip else piece
        skip = 0


def _check_length(response: requests.Response, wanted: Wanted, offset: int) -> None:
    """Refuse a wrong file before its bytes are read, where the headers tell."""
    if response.status_code == 206:
        span = response.headers.get("content-range", "").strip()
        match = re.fullmatch(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", span, re.ASCII)
        if match is None or int(match[1]) != offset:
            raise Misfit(f"answered another range: {span or 'none stated'}")
        length = match[2]
    else:
        encoded = response.headers.get("content-encoding", "identity") != "identity"
        length = "" if encoded else response.headers.get("content-length", "")
    if wanted.size is not None and re.fullmatch(r"\d{1,18}", length, re.ASCII) and int(length) != wanted.size:
        raise Wrong("served a file of another size", expected_got(f"{wanted.size} bytes", f"{length} bytes"))
