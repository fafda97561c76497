# SPDX-License-Identifier: Apache-2.0
"""An image of the store into a registry, bytes as they are: blobs, then manifests, then read back, then the tag.

Edge: the network, by way of the repository, and the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, Missing, Unavailable, expected_got
from derive.images.oci import MANIFEST_TYPE, Descriptor
from derive.images.referrers import broken_referrers, read_referrer, read_whole, referrers_of
from derive.net.progress import Progress
from derive.oci.listing import Listed, with_listed
from derive.oci.parallel import at_once, told
from derive.oci.plan import Document, PushPlan, already_there, distinct, image_document
from derive.oci.pull import PULLED
from derive.oci.remote import Remote
from derive.oci.upload import Moved, upload
from derive.oci.urls import referrers_tag
from derive.store.local import LocalStore

ListedBy: TypeAlias = Literal["registry", "tag"]

_LISTING_PAUSES_S = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What a push did. ``moved`` says of each blob that was missing how it came there.

    ``before`` is what the tag named, where that was another image; ``listed_by`` who keeps the index of referrers, None
    where there are none.
    """

    plan: PushPlan
    moved: dict[Digest, Moved]
    before: Digest | None
    listed_by: ListedBy | None

    def size(self, how: Moved) -> int:
        """Return the bytes of the blobs that came in that way."""
        return sum(blob.size for blob in self.plan.missing if self.moved[blob.digest] == how)

    def count(self, how: Moved) -> int:
        """Return how many blobs came in that way."""
        return sum(moved == how for moved in self.moved.values())


def plan_push(store: LocalStore, remote: Remote, image: Digest, *, referrers: bool = True) -> PushPlan:
    """Find out what the repository lacks of an image, and of what refers to it.

    Raises:
        Missing, Corrupt: when the store does not hold the image or all of what refers to it, or it is none.
        Unavailable: when the registry does not say.
    """
    store.protect(())
    store.has_blob(image)
    document = image_document(read_whole(store, image), where=f"image {image.short}")
    if referrers:
        _require_referrers(store, image)
    attached = tuple(_referrer(store, one) for one in (referrers_of(store, image) if referrers else ()))
    blobs = distinct(blob for one in (document, *attached) for blob in one.blobs)
    for blob in blobs:
        store.has_blob(blob.digest)  # names it, so that no collection takes it now
        size = store.blob_size(blob.digest)  # what is missing here is said before anything moves
        if size != blob.size:
            raise Corrupt(f"blob {blob.digest.short} has another size", detail=expected_got(blob.size, size))
    with told(remote, "the registry does not say what it has"):
        found = at_once(remote, lambda blob: remote.head_blob(blob.digest), blobs)
    sizes = {blob.digest: size for blob, (is_there, size) in zip(blobs, found, strict=True) if is_there}
    return PushPlan(image=document, referrers=attached, there=already_there(blobs, sizes))


def push(
    store: LocalStore,
    remote: Remote,
    plan: PushPlan,
    *,
    tag: str | None,
    progress: Progress,
    source: str = "",
    full: bool = False,
) -> Pushed:
    """Do what was planned; ``source`` is another repository that the registry may take blobs from.

    Everything is read back and compared before the tag moves; with ``full``, blobs are read whole.

    Raises:
        Unavailable: when the registry refuses, or fails for too long; what it took stays there.
        Corrupt: when it holds other bytes afterwards.
    """
    with told(remote, "the image could not be pushed"):
        missing = plan.missing
        done = at_once(remote, lambda blob: upload(store, remote, blob, progress, source=source), missing)
        remote.put_manifest(str(plan.image.digest), plan.image.media_type, plan.image.data)
        unlisted = _refer(remote, plan)
        if unlisted:
            _list(remote, plan.image.digest, unlisted)
        _read_back(remote, plan, full=full)
        before = None if tag is None else _tag(remote, plan.image, tag)
        if unlisted:
            _list(remote, plan.image.digest, unlisted)
    moved = {blob.digest: how for blob, how in zip(missing, done, strict=True)}
    listed_by: ListedBy | None = ("tag" if unlisted else "registry") if plan.referrers else None
    return Pushed(plan=plan, moved=moved, before=before, listed_by=listed_by)


def _require_referrers(store: LocalStore, image: Digest) -> None:
    """Refuse to leave out an attestation that is lost: who pulls the image would take it for one that has none."""
    broken = broken_referrers(store, image)
    if broken:
        is_pulled = any(kind == PULLED and digest == image for kind, _, digest in store.database.roots())
        again = "pull it again (derive pull)" if is_pulled else "attest it again (derive attest)"
        raise Missing(
            f"the store does not hold all of what refers to {image}",
            detail=[f"referrer  {one.manifest.short}: {one.what}" for one in broken],
            hint=f"{again}, or push without any of it: --no-referrers",
        )


def _referrer(store: LocalStore, manifest: Digest) -> Document:
    data = read_whole(store, manifest)
    found = read_referrer(data)
    own = Descriptor(media_type=MANIFEST_TYPE, digest=manifest, size=len(data))
    listed = Listed(manifest=own, artifact_type=found.artifact_type, annotations=found.annotations)
    return Document(media_type=MANIFEST_TYPE, data=data, blobs=distinct((found.config, *found.blobs)), listed=listed)


def _refer(remote: Remote, plan: PushPlan) -> tuple[Listed, ...]:
    """Push what refers to the image, and return what of it the registry does not list by itself."""
    unlisted: list[Listed] = []
    for one in plan.referrers:
        answer = remote.put_manifest(str(one.digest), one.media_type, one.data)
        if "oci-subject" not in answer and one.listed is not None:
            unlisted.append(one.listed)
    return tuple(unlisted)


def _list(remote: Remote, image: Digest, unlisted: Sequence[Listed]) -> None:
    """List referrers under a tag, until they stand there.

    No request of a registry changes an index only if nobody else has: who lists at the same moment overwrites it. So it
    is looked at again later, after more requests than lie between another one's reading and writing.
    """
    tag = referrers_tag(image)
    where = f"{remote.repository}:{tag}"
    for pause in _LISTING_PAUSES_S:
        data = with_listed(remote.manifest(tag), unlisted, where=where)
        if data is None:
            return
        remote.put_index(tag, data)
        remote.client.pause(pause)
    raise Unavailable("others keep rewriting what refers to the image", where=where, hint="run it again")


def _read_back(remote: Remote, plan: PushPlan, *, full: bool) -> None:
    """Compare what the registry has with what was pushed: manifests by their bytes, blobs by size, or by hash."""
    for document in plan.documents:
        there = remote.manifest(str(document.digest))
        if there != document.data:
            what = f"manifest {document.digest.short}"
            _differs(what, document.digest, "nothing" if there is None else sha256(there))
    wrong = at_once(remote, lambda blob: _compared(remote, blob, full=full), plan.blobs)
    for blob, got in zip(plan.blobs, wrong, strict=True):
        if got is not None:
            _differs(f"blob {blob.digest.short}", f"{blob.digest} ({blob.size} bytes)", got)


def _compared(remote: Remote, blob: Descriptor, *, full: bool) -> str | None:
    """Return what the registry has in place of a blob, None when it has that."""
    is_there, size = remote.head_blob(blob.digest)
    if not is_there:
        return "nothing"
    if full:
        digest, size = remote.hash_blob(blob.digest)
        if digest != blob.digest:
            return f"{digest} ({size} bytes)"
    return None if size in (None, blob.size) else f"{size} bytes"


def _tag(remote: Remote, image: Document, tag: str) -> Digest | None:
    """Make a tag name the image, and return what it named before, when that was another one."""
    before = remote.manifest(tag)
    if before == image.data:
        return None
    remote.put_manifest(tag, image.media_type, image.data)
    now = remote.manifest(tag)
    if now != image.data:
        _differs(f"tag {tag}", image.digest, "nothing" if now is None else sha256(now))
    return None if before is None else sha256(before)


def _differs(what: str, expected: object, got: object) -> None:
    hint = "push it again; if it stays so, something between alters what passes, or the registry is broken"
    raise Corrupt(f"{what}: the registry does not hold what it took", detail=expected_got(expected, got), hint=hint)
