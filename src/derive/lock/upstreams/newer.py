# SPDX-License-Identifier: Apache-2.0
"""Newer versions of what a set of upstreams has locked: tags and branches of git, tags of images, revisions of models.

Edge: git, the network.
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.errors import Unavailable
from derive.lock.tools import Tools
from derive.lock.upstreams.entries import HuggingFaceEntry, OciEntry, UpstreamsLock
from derive.lock.upstreams.watch import watch
from derive.lock.upstreams.wishes import UpstreamsWish

Row = tuple[str, str, str, str, str]
"""Name, type, locked version, newer version, where it was found."""

_DEFAULT_BRANCH = "main"


def newer_upstreams(wish: UpstreamsWish, lock: UpstreamsLock, tools: Tools) -> Iterator[Row]:
    """Yield what is newer. A file at a URL has no newer version that anybody could ask for.

    Raises:
        Unavailable: when a registry or hub cannot be asked; a git upstream that does not answer is only noted.
    """
    for row in watch(wish, lock, tools):
        if not row.built or not row.moved:
            if row.error is not None:
                tools.progress.note(row.error.message)
            continue
        entry = next((one for one in lock.upstreams if one.name == row.name), None)
        version = "never locked" if entry is None else entry.version
        newer = row.tags[-1] if row.tags else (row.now or "gone")[:12]
        yield row.name, "git", version, newer, row.branch or "tags"
    for entry in lock.upstreams:
        if entry.unpinned is not None:
            continue
        if isinstance(entry, OciEntry):
            yield from _image(entry, tools)
        elif isinstance(entry, HuggingFaceEntry):
            yield from _model(entry, tools)


def _image(entry: OciEntry, tools: Tools) -> Iterator[Row]:
    from derive.oci.reference import Reference
    from derive.oci.registry import Registries
    from derive.oci.resolve import digest_of_tag

    if entry.pin is None or entry.pin.tag is None:
        return
    registries = Registries(mirrors=tools.mirrors.oci(), client=tools.fetcher.client, progress=tools.progress)
    now = digest_of_tag(registries, Reference(repository=entry.repository, tag=entry.pin.tag, digest=None))
    locked = entry.pin.index or entry.pin.images[0].manifest.digest
    if now != locked:
        yield entry.name, "oci", locked.short, now.short, entry.pin.tag


def _model(entry: HuggingFaceEntry, tools: Tools) -> Iterator[Row]:
    from derive.huggingface.hubs import Hubs

    hubs = Hubs(mirrors=tools.mirrors.huggingface(), client=tools.fetcher.client, progress=tools.progress)
    try:
        now = hubs.commit(entry.repository, _DEFAULT_BRANCH, kind=entry.contents)
    except Unavailable as error:
        tools.progress.note(error.message)
        return
    if entry.revision is not None and now != entry.revision:
        yield entry.name, "huggingface", entry.revision[:12], now[:12], _DEFAULT_BRANCH
