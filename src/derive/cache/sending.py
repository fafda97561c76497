# SPDX-License-Identifier: Apache-2.0
"""Outputs into a registry: only blobs that it lacks, several at once, and the artifact last.

Edge: the store, a registry.

An artifact that is there is whole, for a registry takes a manifest only when it has the blobs: what a push that was
killed had brought is found by the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from derive.cache.artifact import (
    CONTENTS_TYPE,
    EMPTY,
    EMPTY_DESCRIPTOR,
    LISTING_TYPE,
    output_manifest,
    output_tag,
)
from derive.cache.packing import Group, groups_of, pack, placed
from derive.canonical import Digest, sha256
from derive.derivations.model import FlatOutput, Output
from derive.images.oci import MANIFEST_TYPE, Descriptor, named_blobs
from derive.images.referrers import read_whole
from derive.net.progress import Progress
from derive.oci.parallel import at_once
from derive.oci.remote import Remote
from derive.oci.upload import upload
from derive.store.listings import dump_listing
from derive.store.local import LocalStore
from derive.trees.listing import File, Listing, Location

_AT_A_TIME = 32
"""Outputs whose blobs go together; their artifacts are there before the next ones begin."""

_SentGroup: TypeAlias = tuple[Descriptor, Mapping[Digest, Location]]
"""The blob of a group, and where in it the contents with these hashes lie."""


@dataclass(frozen=True, slots=True)
class Held:
    """Blobs in memory, to be sent."""

    blobs: Mapping[Digest, bytes]

    def read_blob(self, digest: Digest, offset: int = 0, size: int | None = None) -> Iterator[bytes]:
        """Yield a slice of a blob."""
        data = self.blobs[digest]
        yield data[offset : len(data) if size is None else offset + size]

    def blob_path(self, digest: Digest) -> Path:
        """Return what stands for a file where a person is told of damage."""
        return Path(digest.short)


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice of a stored blob, to be sent as a blob of its own."""

    store: LocalStore
    at: Location

    def read_blob(self, digest: Digest, offset: int = 0, size: int | None = None) -> Iterator[bytes]:
        """Yield a slice of the slice."""
        del digest
        left = self.at.size - offset if size is None else size
        return self.store.read_blob(self.at.blob, self.at.offset + offset, left)

    def blob_path(self, digest: Digest) -> Path:
        """Return the file that the slice lies in."""
        del digest
        return self.store.blob_path(self.at.blob)


@dataclass(slots=True)
class Sent:
    """What a push moved: outputs that were there, those that came, blobs and bytes that were sent."""

    there: int = 0
    outputs: int = 0
    blobs: int = 0
    size: int = 0


@dataclass(slots=True, kw_only=True)
class Sender:
    """Sends outputs of one store to one repository; ``count`` is told how many of how many that it lacked are there."""

    store: LocalStore
    remote: Remote
    progress: Progress
    count: Callable[[int, int], None] = lambda _there, _all: None
    sent: Sent = field(default_factory=Sent)
    _absent: int = 0
    _known: set[Digest] = field(default_factory=set)
    _turns: dict[Digest, threading.Lock] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def send(self, outputs: Sequence[Output], images: frozenset[Output]) -> None:
        """Bring outputs into the repository; of ``images``, which are manifests, config and layers too.

        Raises:
            Failure: when the registry fails for too long; what it took stays there.
            Missing, Corrupt: when the store's own contents are gone, or damaged.
        """
        tags = at_once(self.remote, lambda one: self.remote.manifest(output_tag(one)), outputs)
        absent = [one for one, there in zip(outputs, tags, strict=True) if there is None]
        self.sent.there += len(outputs) - len(absent)
        self._absent = len(absent)
        if absent:
            self.count(0, len(absent))
            self._blob(Held({EMPTY_DESCRIPTOR.digest: EMPTY}), EMPTY_DESCRIPTOR)
        for start in range(0, len(absent), _AT_A_TIME):
            self._send_some(absent[start : start + _AT_A_TIME], images)

    def _send_some(self, outputs: Sequence[Output], images: frozenset[Output]) -> None:
        trees = {one: self.store.listing(one.digest) for one in outputs if not isinstance(one, FlatOutput)}
        flats = {one: self._named(one, image=one in images) for one in outputs if isinstance(one, FlatOutput)}
        groups = {one: groups_of(listing) for one, listing in trees.items()}
        distinct = {_contents(group): group for found in groups.values() for group in found}
        blobs = {blob.digest: blob for found in flats.values() for blob in found}
        at_once(self.remote, lambda blob: self._blob(self.store, blob), list(blobs.values()))
        done = dict(zip(distinct, at_once(self.remote, self._group, distinct.values()), strict=True))
        at_once(self.remote, lambda pair: self._artifact(*pair), list(flats.items()))
        ready = [(one, trees[one], [done[_contents(group)] for group in found]) for one, found in groups.items()]
        at_once(self.remote, lambda task: self._tree(*task), ready)

    def _named(self, output: FlatOutput, *, image: bool) -> tuple[Descriptor, ...]:
        """Return an output of one file as a blob, and behind an image's manifest what that names."""
        self.store.has_blob(output.digest)  # names it, so that no collection takes it now
        size = self.store.blob_size(output.digest)
        own = Descriptor(media_type=CONTENTS_TYPE, digest=output.digest, size=size)
        if not image:
            return (own,)
        parts = {blob.digest: blob for blob in named_blobs(read_whole(self.store, output.digest))}
        return (own, *parts.values())

    def _group(self, group: Group) -> _SentGroup:
        """Send one group, and return its blob with where each of its files lies in it."""
        if group.is_large:
            return self._large(group.files[0])
        parts = [(file, self._bytes(file)) for file in group.files]
        data, where = pack(parts)
        blob = Descriptor(media_type=CONTENTS_TYPE, digest=sha256(data), size=len(data))
        self._blob(Held({blob.digest: data}), blob)
        found: dict[Digest, Location] = {}
        for file, (offset, size, method) in zip(group.files, where, strict=True):
            found[file.sha256] = Location(blob.digest, offset, size, "deflate" if method == "deflate" else "raw")
        return blob, found

    def _large(self, file: File) -> _SentGroup:
        assert file.at is not None
        digest = file.sha256 if file.at.method == "raw" else self._hash(file.at)
        blob = Descriptor(media_type=CONTENTS_TYPE, digest=digest, size=file.at.size)
        self._blob(_Slice(self.store, file.at), blob)
        return blob, {file.sha256: Location(digest, 0, file.at.size, file.at.method)}

    def _bytes(self, file: File) -> bytes:
        """Return a small file's bytes as they lie in the store; raw ones are checked when they are read so."""
        assert file.at is not None
        if file.at.method == "raw":
            return b"".join(self.store.read(file))
        return b"".join(self.store.read_blob(file.at.blob, file.at.offset, file.at.size))

    def _hash(self, at: Location) -> Digest:
        import hashlib

        hasher = hashlib.sha256()
        for piece in self.store.read_blob(at.blob, at.offset, at.size):
            hasher.update(piece)
        return Digest(hasher.hexdigest())

    def _tree(self, output: Output, listing: Listing, groups: Sequence[_SentGroup]) -> None:
        packs = {blob.digest: blob for blob, _ in groups}
        places = {digest: at for _, found in groups for digest, at in found.items()}
        data = dump_listing(placed(listing, places))
        blob = Descriptor(media_type=LISTING_TYPE, digest=sha256(data), size=len(data))
        self._blob(Held({blob.digest: data}), blob)
        self._artifact(output, (blob, *packs.values()))

    def _artifact(self, output: Output, blobs: tuple[Descriptor, ...]) -> None:
        self.remote.put_manifest(output_tag(output), MANIFEST_TYPE, output_manifest(output, blobs))
        with self._guard:
            self.sent.outputs += 1
            self.count(self.sent.outputs, self._absent)

    def _blob(self, source: LocalStore | Held | _Slice, blob: Descriptor) -> None:
        """Send a blob that the repository lacks.

        Who needs what another one is sending waits for it, and sends it where that one fails.
        """
        with self._guard:
            turn = self._turns.setdefault(blob.digest, threading.Lock())
        with turn:
            if blob.digest in self._known:
                return
            is_there, _ = self.remote.head_blob(blob.digest)
            if not is_there:
                upload(source, self.remote, blob, self.progress)
            with self._guard:
                self._known.add(blob.digest)
                self.sent.blobs += not is_there
                self.sent.size += 0 if is_there else blob.size


def _contents(group: Group) -> tuple[Digest | Location, ...]:
    """Return what makes a group's blob: groups of several trees that are made of the same are sent as one.

    Contents are the same wherever they lie, and a deflate stream of them is one of many.
    """
    return tuple(file.at if file.at is not None and file.at.method != "raw" else file.sha256 for file in group.files)
