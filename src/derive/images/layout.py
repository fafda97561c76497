# SPDX-License-Identifier: Apache-2.0
"""An image leaves the store as an OCI layout: a folder, or the same as one uncompressed tar that Docker loads too.

Edge: writes one folder or file, which is there whole or not at all.

Both are functions of the image digest and the name alone.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, HostRefuses, InputErrors, Missing, expected_got
from derive.images.docker import MANIFEST_FILE, manifest_json
from derive.images.modes import ModeTable
from derive.images.oci import LAYOUT, MANIFEST_TYPE, Descriptor, index, is_export, named_blobs, platform_of
from derive.images.tar import stream
from derive.outfile import check_output, leads_to_stream, open_output
from derive.store.protocol import Store
from derive.trees.listing import File, Listing, Location

_OWN = {"oci-layout", "index.json", "blobs"}


@dataclass(frozen=True, slots=True)
class _Layout:
    index: bytes
    docker: bytes
    blobs: tuple[Descriptor, ...]


def check_destination(destination: str | Path) -> None:
    """Find out whether an image can be written there, before there is one; nothing that lies there is changed.

    Raises:
        InputErrors, HostRefuses: as :func:`export_image`.
    """
    if Path(destination).suffix == ".tar" or leads_to_stream(destination):
        check_output(destination)
        return
    _check_replaceable(Path(destination))
    with _staged(Path(destination)) as staging:
        staging.mkdir()


def export_image(store: Store, image: Digest, name: str, destination: str | Path) -> None:
    """Write an image as an OCI layout: a folder, but one file where the destination ends in ``.tar``.

    To standard output (``-``), a FIFO or a device goes that one file, too.

    Raises:
        InputErrors, Missing, Corrupt, HostRefuses: as :func:`export_archive` and :func:`export_folder`.
    """
    if Path(destination).suffix == ".tar" or leads_to_stream(destination):
        export_archive(store, image, name=name, destination=destination)
    else:
        export_folder(store, image, name=name, destination=Path(destination))


def export_folder(store: Store, image: Digest, *, name: str, destination: Path) -> None:
    """Write an image as an OCI layout folder, blobs hard-linked to the store's where the file system can.

    An empty folder, or a layout that this function wrote, is replaced.

    Raises:
        InputErrors: when the destination is anything else that exists, or the name is not one that OCI allows.
        Missing, Corrupt: when the store lacks a blob, or one is not what its name says.
        HostRefuses: when the destination cannot be written.
    """
    layout = _layout(store, image, name)
    _check_replaceable(destination)
    with _staged(destination) as staging:
        blobs = staging / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        for blob in layout.blobs:
            _link_or_copy(store, blob, blobs / blob.digest.hex)
        _write(staging / "oci-layout", (LAYOUT,))
        _write(staging / "index.json", (layout.index,))
        for folder in (blobs, blobs.parent, staging):
            _sync(folder)
        _check_replaceable(destination)  # again: writing took a while, and what lies there now would be deleted
        _replace_folder(staging, destination)


def export_archive(store: Store, image: Digest, *, name: str, destination: str | Path) -> None:
    """Write an image as one uncompressed tar of its OCI layout, with Docker's manifest; an existing file is replaced.

    Raises:
        InputErrors: when the destination is a folder, or the name is not one that OCI allows.
        Missing, Corrupt: when the store lacks a blob, or one is not what its name says.
        HostRefuses: when the destination cannot be written.
    """
    layout = _layout(store, image, name)
    named = {"oci-layout": LAYOUT, "index.json": layout.index, MANIFEST_FILE: layout.docker}
    texts = {sha256(text): text for text in named.values()}
    entries = {path.encode(): _file(sha256(text), len(text)) for path, text in named.items()}
    entries |= {f"blobs/sha256/{b.digest.hex}".encode(): _file(b.digest, b.size) for b in layout.blobs}

    def read(file: File) -> Iterable[bytes]:
        text = texts.get(file.sha256)
        return _checked(store, file.sha256) if text is None else (text,)

    with open_output(destination) as file:
        file.writelines(stream(Listing.of(entries).items(), ModeTable(), read))


def _layout(store: Store, image: Digest, name: str) -> _Layout:
    """Read what the image names, and check that the store holds it at the stated sizes."""
    manifest = b"".join(_checked(store, image))
    own = Descriptor(media_type=MANIFEST_TYPE, digest=image, size=len(manifest))
    config, *layers = named_blobs(manifest)
    for blob in (config, *layers):
        size = store.blob_size(blob.digest)
        if size != blob.size:
            raise Corrupt(f"blob {blob.digest.short} has another size", detail=expected_got(blob.size, size))
    platform = platform_of(b"".join(_checked(store, config.digest)))
    return _Layout(
        index=index(own, platform=platform, name=name),
        docker=manifest_json(config, layers, name),
        blobs=tuple(dict.fromkeys((own, config, *layers))),
    )


def _file(digest: Digest, size: int) -> File:
    return File(executable=False, size=size, sha256=digest, at=Location(digest, 0, size))


def _checked(store: Store, digest: Digest) -> Iterator[bytes]:
    hasher = hashlib.sha256()
    for chunk in store.read_blob(digest):
        hasher.update(chunk)
        yield chunk
    if hasher.hexdigest() != digest.hex:
        raise Corrupt("a blob is not what its name says", detail=expected_got(digest, f"sha256:{hasher.hexdigest()}"))


def _check_replaceable(destination: Path) -> None:
    if not os.path.lexists(destination):
        return
    hint = "name a folder that does not exist yet"
    if destination.is_symlink() or not destination.is_dir():
        raise InputErrors.one(f"{destination} is no folder", hint=hint)
    names = {entry.name for entry in destination.iterdir()}
    if not names:
        return
    index_file = destination / "index.json"
    if names != _OWN or not index_file.is_file() or not is_export(index_file.read_bytes()):
        raise InputErrors.one(f"{destination} holds other files than an image exported before", hint=hint)


@contextmanager
def _staged(destination: Path) -> Iterator[Path]:
    """Yield a path beside the destination, removed on failure; failures to write become HostRefuses."""
    if not destination.parent.is_dir():
        raise InputErrors.one(f"the folder {destination.parent} does not exist")
    staging = destination.parent / f".{destination.name}.{secrets.token_hex(8)}.partial"
    try:
        yield staging
    except OSError as error:
        raise HostRefuses(f"cannot write {destination}: {(error.strerror or '').lower()}") from error
    finally:
        _remove(staging)


def _replace_folder(staging: Path, destination: Path) -> None:
    """Rename into place. A folder that is not empty cannot be renamed over, so it steps aside first."""
    aside = staging.with_suffix(".replaced")
    with suppress(FileNotFoundError):
        destination.rename(aside)
    try:
        staging.rename(destination)
    except OSError:
        if aside.exists():
            aside.rename(destination)
        raise
    _sync(destination.parent)
    _remove(aside)


def _link_or_copy(store: Store, blob: Descriptor, target: Path) -> None:
    try:
        os.link(Path(store.blob_path(blob.digest)), target)
    except (OSError, Missing):
        # Another file system, a file system or user that may not link, or a store in memory.
        _write(target, _checked(store, blob.digest))


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    with path.open("xb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
