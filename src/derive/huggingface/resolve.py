# SPDX-License-Identifier: Apache-2.0
"""From a revision to a pin: its commit, and every file by size and SHA-256; small files are fetched to be hashed.

Edge: the network, by way of the hubs, and the store, which keeps what was fetched.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from derive.canonical import Digest
from derive.errors import Corrupt, DeriveError, InputErrors, Unavailable
from derive.huggingface.hubs import Hubs
from derive.huggingface.model import HfFile, HfPin, Kind, is_repository
from derive.net.failures import together
from derive.store.protocol import Store

_JOBS = 8


def resolve_hf(store: Store, hubs: Hubs, repository: str, revision: str, *, kind: Kind = "model") -> HfPin:
    """Pin a revision. Large files are not fetched: the commit holds their hashes.

    Raises:
        InputErrors: when this names no repository.
        UpstreamGone: no hub has the repository, the revision, or a file of it.
        Corrupt: a hub's answer is none, or a file is not the one that is committed.
        Unavailable: it could not be had now, or not without a token, or without accepting its terms.
    """
    if not is_repository(repository):
        raise InputErrors.one(f"not a repository: {repository!r}", hint="write owner/name")
    commit, files = hubs.files(repository, revision, kind=kind)
    pin = HfPin(repository=repository, kind=kind, revision=commit, files=files)
    errors: list[DeriveError] = []

    def complete(file: HfFile) -> HfFile:
        if file.sha256 is not None:
            return file
        try:
            return replace(file, sha256=_keep(store, hubs.contents(pin, file)))
        except (Corrupt, Unavailable) as error:
            errors.append(error)
            return file

    with ThreadPoolExecutor(max_workers=_JOBS, thread_name_prefix="hub") as pool:
        try:
            done = tuple(pool.map(complete, files))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    if errors:
        raise together(sorted(errors, key=lambda error: error.message), len(files))
    return replace(pin, files=done)


def _keep(store: Store, data: bytes) -> Digest:
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()
