# SPDX-License-Identifier: Apache-2.0
"""Certificates on disk and beside images: those of a release are read, and added to, never replaced.

Edge: ``records/certificates/`` of a project, the store.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from derive.attest.attach import envelope_of
from derive.attest.statement import ENVELOPE_TYPE, PREDICATE_ANNOTATION
from derive.canonical import Digest, sha256
from derive.certificates.judge import Held, Unread
from derive.certificates.model import LONGEST, PREDICATE_TYPE, read_certificate
from derive.errors import Corrupt, HostRefuses, Missing
from derive.images.referrers import attach, read_referrer, read_whole, referrers_of
from derive.infile import read_plain
from derive.store.blobs import sync_folder
from derive.store.local import LocalStore
from derive.trust.dsse import Envelope
from derive.words import unreadable

FOLDER = "records/certificates"
SUFFIX = ".dsse.json"


def read_folder(root: Path, release: str) -> list[Held | Unread]:
    """Read every certificate that lies by a release's name; those that are none are told with why."""
    folder = root / FOLDER / release
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return []
    except OSError as error:
        return [Unread(file=f"{FOLDER}/{release}", why=unreadable(error))]
    return [_read(folder / name, f"{FOLDER}/{release}/{name}") for name in names]


def read_attached(store: LocalStore, image: Digest) -> Iterator[Held]:
    """Yield the certificates that are attached to an image in a store; what cannot be read is passed over there."""
    for manifest in referrers_of(store, image):
        try:
            envelope = envelope_of(store, manifest)
            if envelope is not None:
                data = envelope.encoded()
                certificate, _ = read_certificate(data)
                blob = read_referrer(read_whole(store, manifest)).blobs[0].digest
                yield Held(file=f"store: {blob}", digest=blob, certificate=certificate, envelope=envelope)
        except (Corrupt, Missing):
            continue


def attach_certificate(store: LocalStore, image: Digest, envelope: Envelope) -> Digest:
    """Keep a certificate for as long as an image is kept, and return the manifest that refers to the image.

    Raises:
        Missing: when the store does not hold the image.
    """
    store.protect(())  # a collection must not take what is about to be named
    return attach(store, image, ENVELOPE_TYPE, envelope.encoded(), {PREDICATE_ANNOTATION: PREDICATE_TYPE})


def write_certificate(root: Path, release: str, key: Digest, envelope: Envelope) -> Path:
    """Write a certificate beside those of a release, under a name that none has, and return its path.

    Raises:
        HostRefuses: when it cannot be written.
    """
    folder, data = root / FOLDER / release, envelope.encoded()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staged = folder / f".{secrets.token_hex(8)}.partial"
        with staged.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            path = _linked(staged, folder, key)
        finally:
            staged.unlink()
        sync_folder(folder)
    except OSError as error:
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=str(folder)) from error
    return path


def _linked(staged: Path, folder: Path, key: Digest) -> Path:
    """Give a file the first name that is free: records name what an earlier one holds."""
    number = 1
    while True:
        path = folder / (f"{key.short}{SUFFIX}" if number == 1 else f"{key.short}-{number}{SUFFIX}")
        try:
            os.link(staged, path)
        except FileExistsError:
            number += 1
        else:
            return path


def _read(path: Path, file: str) -> Held | Unread:
    try:
        data, _ = read_plain(path, LONGEST, follow=False)
        certificate, envelope = read_certificate(data)
    except OSError as error:
        return Unread(file=file, why=unreadable(error))
    except Corrupt as error:
        return Unread(file=file, why=error.message)
    return Held(file=file, digest=sha256(data), certificate=certificate, envelope=envelope)
