# SPDX-License-Identifier: Apache-2.0
"""One output from a registry into the store, every byte checked: a registry can refuse, and not deceive.

Edge: a registry, the store.
"""

from __future__ import annotations

from collections.abc import Sequence

from derive.cache.artifact import output_tag, read_output
from derive.cache.packing import sizes_bound
from derive.canonical import Digest
from derive.derivations.model import FlatOutput, Output, TreeOutput
from derive.errors import Corrupt, expected_got
from derive.images.oci import Descriptor, named_blobs
from derive.images.referrers import read_whole
from derive.net.failures import Gone
from derive.net.fetch import Fetcher
from derive.net.places import Named, Place, Wanted
from derive.oci.remote import Remote
from derive.store.closure_listing import read_listing
from derive.store.inventory import MANIFEST_LIMIT
from derive.store.local import LocalStore

LARGEST_LISTING = 256 << 20
_AT_ONCE = 4


def bring(store: LocalStore, remote: Remote, fetcher: Fetcher, output: Output, size_bytes: int, *, image: bool) -> int:
    """Bring an output that the store lacks, and return the bytes that were moved.

    ``size_bytes`` is what signers say of its contents: what is served may not be much more. Of an ``image``, whose
    manifest the output is, config and layers come along.

    Raises:
        Failure: when the registry does not serve it.
        Corrupt: when it serves another output than the tag says; nothing of that is kept as one.
        Unavailable, UpstreamGone, HostRefuses: from the transfers.
    """
    data = remote.manifest(output_tag(output))
    if data is None:
        raise Gone(f"does not hold {output_tag(output)}")
    blobs = read_output(data, output)
    total = sum(blob.size for blob in blobs)
    if total > sizes_bound(size_bytes):
        detail = expected_got(f"{size_bytes} bytes of contents, as signed", f"{total} bytes")
        raise Corrupt(f"{output_tag(output)} is larger than its signers say", detail=detail)
    if isinstance(output, TreeOutput):
        return _tree(store, remote, fetcher, output, blobs)
    if blobs[0].digest != output.digest:
        raise Corrupt("the tag names another file", detail=expected_got(output.digest, blobs[0].digest))
    moved = _fetch(store, remote, fetcher, blobs[:1])
    return moved + (_image(store, remote, fetcher, output, blobs[1:]) if image else 0)


def _tree(store: LocalStore, remote: Remote, fetcher: Fetcher, output: TreeOutput, blobs: Sequence[Descriptor]) -> int:
    head = blobs[0]
    if head.size > LARGEST_LISTING:
        raise Corrupt(f"the listing of tree {output.digest.short} is larger than any that is read")
    data = remote.read_blob(head.digest, LARGEST_LISTING)
    sizes = {blob.digest: blob.size for blob in blobs[1:]}
    listing = read_listing(data, output.digest, sizes)
    moved = len(data) + _fetch(store, remote, fetcher, blobs[1:])
    got = store.add_foreign(listing, output.digest)
    if got != output.digest:
        raise Corrupt("a tree is not what its name says", detail=expected_got(output.digest, got))
    return moved


def _image(store: LocalStore, remote: Remote, fetcher: Fetcher, output: FlatOutput, blobs: Sequence[Descriptor]) -> int:
    if store.blob_size(output.digest) > MANIFEST_LIMIT:
        raise Corrupt("an image's manifest is larger than any that is read")
    served = {blob.digest: blob for blob in blobs}
    named = {blob.digest: blob for blob in named_blobs(read_whole(store, output.digest))}
    absent = [digest for digest in named if digest not in served and not store.has_blob(digest)]
    if absent:
        raise Corrupt(f"the image {output.digest.short} is served without blob {absent[0].short}")
    return _fetch(store, remote, fetcher, [blob for digest, blob in named.items() if digest in served])


def _fetch(store: LocalStore, remote: Remote, fetcher: Fetcher, blobs: Sequence[Descriptor]) -> int:
    absent = [blob for blob in {blob.digest: blob for blob in blobs}.values() if not store.has_blob(blob.digest)]

    def places(wanted: Wanted) -> Sequence[Place]:
        return (remote.blob_place(wanted.sha256),)

    wanted = [_wanted(remote, blob.digest, blob.size) for blob in absent]
    try:
        fetcher.fetch_all(wanted, jobs=_AT_ONCE, places=places)
    except Corrupt as error:
        raise Corrupt("other bytes than a blob's name says", detail=error.detail) from error
    return sum(blob.size for blob in absent)


def _wanted(remote: Remote, digest: Digest, size: int) -> Wanted:
    locator = Named(text=f"{remote.repository}@{digest}", file=digest.short)
    return Wanted(name=remote.repository, version=digest.short, locator=locator, sha256=digest, size=size)
