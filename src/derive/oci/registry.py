# SPDX-License-Identifier: Apache-2.0
"""The registries of one run: manifests by tag or digest, places of blobs, and the tokens that either may need.

Edge: the network, through derive.net, and the person's logins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, DeriveError, HostRefuses, Unavailable, UpstreamGone, expected_got
from derive.images.oci import INDEX_TYPE
from derive.net.failures import Failure, Gone, Refused, Tried, Wrong
from derive.net.http import Answer, Client
from derive.net.places import Mirror, Place
from derive.net.progress import Progress, Quiet
from derive.oci.access import Access, Registry
from derive.oci.answers import stated_digest
from derive.oci.documents import ACCEPT, LONGEST_CONFIG, LONGEST_MANIFEST, Index, Manifest, parse_manifest
from derive.oci.logins import SystemLogins
from derive.oci.reference import Reference
from derive.oci.urls import blob_url, manifest_url, referrers_tag, referrers_url

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A manifest or index as a registry serves it, and what it says."""

    body: bytes
    media_type: str
    document: Index | Manifest


class Registries:
    """Where images are served, in order of preference. Safe for several threads."""

    def __init__(
        self,
        *,
        mirrors: Sequence[Mirror],
        client: Client,
        progress: Progress | None = None,
        environ: Mapping[str, str] | None = None,
        offline: bool = False,
    ) -> None:
        self._client = client
        self._progress: Progress = progress or Quiet()
        self._offline = offline
        self._logins = SystemLogins(environ=environ, progress=self._progress)
        self._registries = tuple(Registry(mirror) for mirror in mirrors)
        self._guard = threading.Lock()
        self._access: dict[tuple[str, str], Access] = {}

    def require(self) -> None:
        """Raise HostRefuses when no registry is configured."""
        if not self._registries:
            raise HostRefuses(
                "no registry is configured",
                hint="export DERIVE_MIRROR_OCI=<url of a registry>, or set oci under [mirrors] in your config.toml",
            )

    def note(self, message: str) -> None:
        """Tell the person something."""
        self._progress.note(message)

    def manifest(self, reference: Reference) -> Served:
        """Return what the first registry that has it serves under a reference; a digest is checked.

        Raises:
            UpstreamGone: every registry answers, and none has it.
            Corrupt: a registry served other bytes than the digest names, or no image, and none the right ones.
            Unavailable: it could not be had now, or not without a login.
        """

        def ask(registry: Registry) -> Served:
            answer = self._manifest(registry, reference)
            media_type, document = parse_manifest(answer.body, where=str(reference), stated=answer.content_type)
            return Served(body=answer.body, media_type=media_type, document=document)

        return self._first(reference, ask)

    def artifact(self, reference: Reference) -> bytes:
        """Return a manifest that need not be an image's; raises as :meth:`manifest`."""
        return self._first(reference, lambda registry: self._manifest(registry, reference).body)

    def referrers(self, repository: str, subject: Digest) -> bytes | None:
        """Return the index of what refers to a manifest: the registry's own, else that under the tag kept for it.

        None where there is neither; raises as :meth:`manifest`.
        """

        def ask(registry: Registry) -> bytes:
            url = referrers_url(registry.url, repository, subject)
            try:
                return self._get(registry, repository, url, accept=INDEX_TYPE, limit=LONGEST_MANIFEST).body
            except (Gone, Refused) as failure:
                if failure.status in (None, 401, 403):
                    raise
            return self._manifest(registry, by_tag).body

        by_tag = Reference(repository=repository, tag=referrers_tag(subject), digest=None)
        try:
            return self._first(by_tag, ask)
        except UpstreamGone:
            return None

    def blob(self, reference: Reference, digest: Digest) -> bytes:
        """Return a small blob of an image, checked; raises as :meth:`manifest`."""

        def ask(registry: Registry) -> bytes:
            url = blob_url(registry.url, reference.repository, digest)
            answer = self._get(registry, reference.repository, url, accept="*/*", limit=LONGEST_CONFIG)
            if sha256(answer.body) != digest:
                raise Wrong("served other bytes", expected_got(digest, sha256(answer.body)))
            return answer.body

        return self._first(reference, ask, digest)

    def places(self, repository: str, digest: Digest) -> tuple[Place, ...]:
        """Return where a blob may lie, in order of preference."""
        return tuple(
            Place(
                url=blob_url(registry.url, repository, digest),
                proxy=registry.mirror.proxy,
                authorise=self._access_to(registry, repository).authorise,
            )
            for registry in self._registries
        )

    def _manifest(self, registry: Registry, reference: Reference) -> Answer:
        url = manifest_url(registry.url, reference.repository, reference.named)
        answer = self._get(registry, reference.repository, url, accept=ACCEPT, limit=LONGEST_MANIFEST)
        # Of what a tag names, the registry alone says which bytes they are.
        wanted = reference.digest or stated_digest(answer.headers)
        got = sha256(answer.body)
        if wanted not in (None, got):
            raise Wrong("served another manifest", expected_got(wanted, got))
        return answer

    def _first(self, reference: Reference, ask: Callable[[Registry], T], blob: Digest | None = None) -> T:
        if self._offline:
            raise Unavailable(f"{reference} is not read offline", hint="run it once without --offline")
        self.require()
        tried: list[Tried] = []
        damaged: Corrupt | None = None
        for registry in self._registries:
            try:
                found = ask(registry)
            except Failure as failure:
                tried.append(Tried(place=registry.url, failure=failure))
                continue
            except Corrupt as error:
                damaged = damaged or error
                continue
            for item in tried:
                if isinstance(item.failure, Wrong):
                    self._progress.note(f"another registry was used for {reference}: {item}")
            return found
        raise damaged or _verdict(reference, tried, blob)

    def _get(self, registry: Registry, repository: str, url: str, *, accept: str, limit: int) -> Answer:
        access = self._access_to(registry, repository)
        proxy = registry.mirror.proxy
        sent = access.authorise(None)
        try:
            return self._client.get(url, accept=accept, proxy=proxy, limit=limit, authorization=sent)
        except Refused as failure:
            header = access.authorise(failure) if failure.status == 401 else None
            if header in (None, sent):
                raise
        return self._client.get(url, accept=accept, proxy=proxy, limit=limit, authorization=header)

    def _access_to(self, registry: Registry, repository: str) -> Access:
        with self._guard:
            key = (registry.url, repository)
            if key not in self._access:
                self._access[key] = Access(registry, repository, self._client, self._logins)
            return self._access[key]


def _verdict(reference: Reference, tried: Sequence[Tried], blob: Digest | None) -> DeriveError:
    detail = [f"tried     {item}" for item in tried]
    wrong = next((item.failure for item in tried if isinstance(item.failure, Wrong)), None)
    if wrong is not None:
        return Corrupt(f"{reference}: a registry serves other bytes", detail=[*wrong.detail, *detail])
    if tried and all(isinstance(item.failure, Gone) for item in tried):
        if blob is not None:
            hint = "push it again: the registry has the manifest, and not all that it names"
            return UpstreamGone(f"{reference}: no registry has its blob {blob}", detail=detail, hint=hint)
        return UpstreamGone(f"no registry has {reference}", detail=detail, hint="look at its name and its tag")
    closed = next((item for item in tried if item.failure.status in (401, 403)), None)
    if closed is not None:
        host = urlsplit(closed.place).netloc
        hint = f"is it there, and may you read it? Then run: docker login {host}"
        return Unavailable(f"{reference}: the registry does not let us read it", detail=detail, hint=hint)
    return Unavailable(f"{reference} could not be read", detail=detail, hint="run it again when the registry answers")
