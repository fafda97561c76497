# SPDX-License-Identifier: Apache-2.0
"""An image from a registry into the store, kept there under a name: only what the store lacks, each blob by its digest.

Edge: the network, by way of the registries and the fetcher, and the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, UpstreamGone, expected_got
from derive.images.oci import Descriptor
from derive.images.referrers import Referrer, read_referrer, remember
from derive.net.fetch import Fetcher
from derive.net.places import Named, Place, Wanted
from derive.oci.documents import Index, parse_manifest
from derive.oci.listing import parse_listing
from derive.oci.model import OciImage
from derive.oci.reference import Reference
from derive.oci.registry import Registries, Served
from derive.oci.resolve import pin_served
from derive.store.inventory import Root
from derive.store.local import LocalStore

PULLED = "pulled"
"""The kind of root that keeps what a pull brought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What a pull brought. ``moved`` are the blobs, of the image and its referrers, that the store lacked."""

    image: OciImage
    moved: tuple[Descriptor, ...]
    there: tuple[Descriptor, ...]
    referrers: tuple[Digest, ...]


class Puller:
    """Pulls into one store. ``registries`` and ``fetcher`` are those of this run."""

    def __init__(self, store: LocalStore, registries: Registries, fetcher: Fetcher) -> None:
        self._store = store
        self._registries = registries
        self._fetcher = fetcher
        self._moved: list[Descriptor] = []
        self._there: list[Descriptor] = []

    def pull(
        self,
        reference: Reference,
        choose: Callable[[Sequence[str]], str],
        platform: str | None = None,
        expect: Callable[[Sequence[Descriptor]], None] = lambda _: None,
        *,
        referrers: bool = True,
    ) -> Pulled:
        """Bring an image and what refers to it, and keep it.

        ``platform`` is the one that it must be for, and where none is said, ``choose`` says which of an index's it is;
        ``expect`` is told what is about to be moved.

        Raises:
            UpstreamGone: when no registry has it, or a part of it.
            Corrupt: when what is served is no image, or not what its digest says.
            Unavailable: when it could not be had now, or not without a login.
        """
        store = self._store
        store.protect(())
        documents = _Kept(store, self._registries)
        served = documents.manifest(reference)
        platforms = [] if platform is None else [platform]
        if isinstance(served.document, Index) and not served.document.manifests:
            raise Corrupt(f"{reference}: an empty index, which names no image")
        if isinstance(served.document, Index) and platform is None:
            platforms = [choose([name for name, _ in served.document.manifests])]
        pin = pin_served(store, documents, reference, served, platforms, strict=True)
        image = pin.images[0]
        self._moved += [image.config] if image.config.digest in documents.fetched else []
        self._bring(reference, [blob for blob in image.blobs if blob not in self._moved], expect)
        _keep(store, reference, image)
        attached = self._attached(reference, image.manifest.digest, expect) if referrers else ()
        return Pulled(image=image, moved=tuple(self._moved), there=tuple(self._there), referrers=attached)

    def _bring(
        self, reference: Reference, blobs: Sequence[Descriptor], expect: Callable[[Sequence[Descriptor]], None]
    ) -> None:
        missing = [blob for blob in blobs if not self._store.has_blob(blob.digest)]
        self._there += [blob for blob in blobs if blob not in missing]
        if not missing:
            return
        expect(missing)

        def places(wanted: Wanted) -> Sequence[Place]:
            return self._registries.places(reference.repository, wanted.sha256)

        try:
            self._fetcher.fetch_all([_wanted(reference, blob) for blob in missing], places=places)
        except UpstreamGone as error:
            hint = "push it again: the registry has the manifest, and not all that it names"
            raise UpstreamGone(error.message, detail=error.detail, hint=hint) from error
        except Corrupt as error:
            hint = "run it again; if it stays so, something between alters what passes, or the registry is broken"
            message = f"{reference}: a registry serves other bytes than the manifest names"
            raise Corrupt(message, detail=error.detail, hint=hint) from error
        self._moved += missing

    def _attached(
        self, reference: Reference, image: Digest, expect: Callable[[Sequence[Descriptor]], None]
    ) -> tuple[Digest, ...]:
        where = f"{reference.repository}: what refers to {image.short}"
        listing = self._registries.referrers(reference.repository, image)
        found: list[tuple[Digest, Referrer]] = []
        for one in () if listing is None else parse_listing(listing, where=where):
            named = Reference(repository=reference.repository, tag=None, digest=one.digest)
            referrer = _read(self._artifact(named))
            if referrer is None or referrer.subject.digest != image:
                self._registries.note(f"{named} does not refer to this image: passed over")
            else:
                found.append((one.digest, referrer))
        blobs = {blob.digest: blob for _, referrer in found for blob in (referrer.config, *referrer.blobs)}
        self._bring(reference, tuple(blobs.values()), expect)
        for digest, _ in found:
            remember(self._store, image, digest)
        return tuple(digest for digest, _ in found)

    def _artifact(self, named: Reference) -> bytes:
        assert named.digest is not None
        kept = _kept(self._store, named.digest)
        if kept is not None:
            return kept
        data = self._registries.artifact(named)
        with self._store.blob_writer() as writer:
            writer.write(data)
            writer.commit(named.digest)
        return data


class _Kept:
    """Manifests and configs from the store where they are there and whole, else from the registries.

    ``fetched`` are the configs that were not.
    """

    def __init__(self, store: LocalStore, registries: Registries) -> None:
        self._store = store
        self._registries = registries
        self.fetched: set[Digest] = set()

    def manifest(self, reference: Reference) -> Served:
        data = None if reference.digest is None else _kept(self._store, reference.digest)
        if data is None:
            return self._registries.manifest(reference)
        media_type, document = parse_manifest(data, where=str(reference))
        return Served(body=data, media_type=media_type, document=document)

    def blob(self, reference: Reference, digest: Digest) -> bytes:
        data = _kept(self._store, digest)
        if data is None:
            data = self._registries.blob(reference, digest)
            self.fetched.add(digest)
        return data

    def note(self, message: str) -> None:
        self._registries.note(message)


def _kept(store: LocalStore, digest: Digest) -> bytes | None:
    """Return a small blob of the store, None where it is not there or damaged."""
    if not store.has_blob(digest):
        return None
    data = b"".join(store.read_blob(digest))
    return data if sha256(data) == digest else None


def _read(manifest: bytes) -> Referrer | None:
    try:
        return read_referrer(manifest)
    except Corrupt:
        return None


def _keep(store: LocalStore, reference: Reference, image: OciImage) -> None:
    """Keep an image from being collected, and name it for every tool that reads the store as an OCI layout."""
    manifest = image.manifest
    for blob in image.blobs:
        size = store.blob_size(blob.digest)
        if size != blob.size:
            detail = expected_got(f"{blob.size} bytes", f"{size} bytes")
            raise Corrupt(f"blob {blob.digest.short} has another size than the manifest states", detail=detail)
    short = (
        f"{reference.repository}:{reference.tag}"
        if reference.tag
        else f"{reference.repository}@{manifest.digest.short}"
    )
    root = Root(kind=PULLED, name=f"{short} {image.platform}", digest=manifest.digest)
    store.staging.settle()
    store.database.set_root(root.kind, root.name, root.digest)
    store.tag(root.tag, manifest.digest, manifest.size, manifest.media_type)


def _wanted(reference: Reference, blob: Descriptor) -> Wanted:
    return Wanted(
        name=reference.repository,
        version=reference.tag or blob.digest.short,
        locator=Named(text=f"{reference.repository}@{blob.digest}", file=blob.digest.short),
        sha256=blob.digest,
        size=blob.size,
    )
