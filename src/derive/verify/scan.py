# SPDX-License-Identifier: Apache-2.0
"""Probes every file of a tree, and returns what there is to say of each, by the digest of its contents.

Edge: the store, a temporary file. A file of a gigabyte passes through it in pieces; none is held in memory.
"""

from __future__ import annotations

import io
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from derive.errors import Corrupt
from derive.store.local import LocalStore
from derive.store.protocol import read_all
from derive.trees.listing import File, Listing, Location
from derive.verify import texts
from derive.verify.elf import ELF_MAGIC, gpu_facts, read_elf
from derive.verify.facts import FileFacts
from derive.verify.fatbin import FATBIN_MAGIC, Malformed, ReadAt, containers, ptx_text
from derive.verify.objects import AR_MAGIC, read_archive

HEAD = 512
"""Bytes of a file that say what it is."""

_PTX_HEAD = 8192
_BUFFER = 1 << 16
_IN_MEMORY = 4 << 20


def scan(store: LocalStore, listing: Listing, scratch: Path, *, jobs: int) -> dict[str, FileFacts]:
    """Probe a tree's files; those of which there is nothing to say are left out. ``jobs`` changes nothing of it."""
    wanted: dict[str, tuple[bytes, File]] = {}
    for path, file in listing.files():
        if file.size and (file.sha256.hex not in wanted or texts.is_text(path)):
            wanted[file.sha256.hex] = path, file
    with ThreadPoolExecutor(jobs, thread_name_prefix="facts") as pool:
        try:
            found = pool.map(lambda one: probe(store, one[0], one[1], scratch), wanted.values())
            return {key: facts for key, facts in zip(wanted, found, strict=True) if facts.document()}
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def probe(store: LocalStore, path: bytes, file: File, scratch: Path) -> FileFacts:
    """Return the facts of one file, which lies at a path of its tree."""
    text = _text_facts(store, path, file)
    if text is not None:
        return text
    head = read_head(store, file, HEAD)
    if head.startswith(ELF_MAGIC):
        with opened(store, file, scratch) as (stream, read):
            return read_elf(stream, read, file.size)
    if head.startswith(AR_MAGIC):
        with opened(store, file, scratch) as (_, read):
            return read_archive(read, file.size)
    if head.startswith(FATBIN_MAGIC):
        with opened(store, file, scratch) as (_, read):
            return _lone_fatbin(read, file.size)
    if path.endswith(b".ptx"):
        unit = ptx_text(read_head(store, file, _PTX_HEAD), file.size)
        return FileFacts(gpu=gpu_facts([unit]) if unit is not None else None)
    return FileFacts(script=texts.first_line(head))


def _lone_fatbin(read: ReadAt, size: int) -> FileFacts:
    with suppress(Malformed):
        return FileFacts(gpu=gpu_facts(list(containers(read, 0, size))))
    return FileFacts()


def _text_facts(store: LocalStore, path: bytes, file: File) -> FileFacts | None:
    if texts.is_metadata(path):
        return FileFacts(wheel=texts.wheel_facts(read_all(store, file)))
    if texts.is_record(path):
        return FileFacts(paths=texts.record_paths(read_all(store, file)))
    if texts.is_list(path):
        return FileFacts(paths=texts.list_paths(read_all(store, file)))
    if texts.is_copyright(path):
        return FileFacts(licence=texts.licence_text(read_all(store, file)))
    if path == texts.STATUS:
        return FileFacts(packages=texts.packages(read_all(store, file)))
    return None


def read_head(store: LocalStore, file: File, count: int) -> bytes:
    """Return the first bytes of a file, without reading the rest of it, and so without its hash being checked."""
    at = _located(file)
    if at.method == "raw":
        return b"".join(store.read_blob(at.blob, at.offset, min(count, at.size)))
    inflater, found = zlib.decompressobj(wbits=-15), b""
    for piece in store.read_blob(at.blob, at.offset, min(at.size, count + _BUFFER)):
        found += inflater.decompress(piece, count - len(found))
        if len(found) >= count:
            break
    return found


@contextmanager
def opened(store: LocalStore, file: File, scratch: Path) -> Iterator[tuple[IO[bytes], ReadAt]]:
    """Open a file's contents, as a stream and as a function; what is compressed is unpacked once, and checked."""
    at = _located(file)
    if at.method == "raw":
        # Where it lies: hashes of blobs are the store's own matter, and of packs' members derive store verify's.
        path = store.blob_path(at.blob)
        with path.open("rb", buffering=0) as blob:
            descriptor = blob.fileno()
            yield _stream(lambda offset, count: _pread(descriptor, at, offset, count), file.size)
    elif file.size <= _IN_MEMORY:
        contents = read_all(store, file)
        yield io.BytesIO(contents), lambda offset, count: contents[offset : offset + count]
    else:
        with tempfile.TemporaryFile(dir=scratch) as unpacked:
            for piece in store.read(file):
                unpacked.write(piece)
            unpacked.flush()
            whole = Location(at.blob, 0, file.size)
            descriptor = unpacked.fileno()
            yield _stream(lambda offset, count: _pread(descriptor, whole, offset, count), file.size)


def _pread(descriptor: int, at: Location, offset: int, count: int) -> bytes:
    found = b""
    left = max(0, min(count, at.size - offset))
    while left > len(found):
        piece = os.pread(descriptor, left - len(found), at.offset + offset + len(found))
        if not piece:
            raise Corrupt(f"blob {at.blob.short} is shorter than its listing says")
        found += piece
    return found


def _stream(read: Callable[[int, int], bytes], size: int) -> tuple[IO[bytes], ReadAt]:
    from derive.lock.contents import open_spans

    return open_spans(size, read, _BUFFER), read


def _located(file: File) -> Location:
    if file.at is None:
        raise ValueError("a file to probe has no location")
    return file.at
