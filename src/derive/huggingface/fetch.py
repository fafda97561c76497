# SPDX-License-Identifier: Apache-2.0
"""Files of a pin, brought into the store by hash; a transfer that breaks off goes on where it was.

Edge: the network, by way of the hubs and the fetcher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from derive.canonical import Digest, escape
from derive.errors import InputErrors, Unavailable
from derive.huggingface.hubs import Hubs
from derive.huggingface.model import HfFile, HfPin
from derive.net.fetch import Fetcher
from derive.net.places import Named, Place, Wanted


def fetch_hf_file(
    fetcher: Fetcher,
    hubs: Hubs,
    pin: HfPin,
    file: HfFile,
    *,
    name: str | None = None,
    reuse: bool = True,
    sized: bool = True,
) -> Digest:
    """Bring one file into the store, and return its digest.

    ``name`` is what ``derive lock --update`` calls the pin, when that is not its repository. With ``reuse`` a blob
    that is there already is enough. Without ``sized`` the file is known by its hash alone.

    Raises:
        InputErrors: when the file's hash is not pinned.
        UpstreamGone: every hub and archive answers, and none has it.
        Corrupt: other bytes were served; nothing is kept of them.
        Unavailable: it could not be had now, or not without a token.
        HostRefuses: no hub is configured, and no archive has it.
    """
    item = wanted(pin, file, name=name)
    try:
        return fetcher.fetch_at(item if sized else replace(item, size=None), hubs.places(pin, file.path), reuse=reuse)
    except Unavailable:
        hubs.require()  # an archive might have done
        raise


def fetch_hf_files(
    fetcher: Fetcher,
    hubs: Hubs,
    pin: HfPin,
    files: Sequence[HfFile],
    *,
    name: str | None = None,
    reuse: bool = True,
    jobs: int = 4,
) -> None:
    """Bring several files into the store at once; as :func:`fetch_hf_file`, failures told together."""
    paths = {wanted(pin, file, name=name): file.path for file in files}

    def places(item: Wanted) -> Sequence[Place]:
        return hubs.places(pin, paths[item])

    try:
        fetcher.fetch_all(paths, reuse=reuse, jobs=jobs, places=places)
    except Unavailable:
        hubs.require()
        raise


def wanted(pin: HfPin, file: HfFile, *, name: str | None = None) -> Wanted:
    """Return what a fetch asks for; raises InputErrors when the file's hash is not pinned."""
    path = escape(file.path.encode())
    if file.sha256 is None:
        raise InputErrors.one(
            "a file whose hash is not pinned",
            where=f"{pin.repository}@{pin.revision[:12]}: {path}",
            hint=f"run: derive lock --update {name or pin.repository}",
        )
    return Wanted(
        name=name or pin.repository,
        version=pin.revision[:12],
        locator=Named(text=f"{pin.repository}@{pin.revision}: {path}", file=path.rpartition("/")[2]),
        sha256=file.sha256,
        size=file.size,
    )
