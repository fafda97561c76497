# SPDX-License-Identifier: Apache-2.0
"""One repository of one registry, to be written to: single requests, and what their answers mean.

Edge: the network, through derive.net, and the person's logins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from derive.canonical import Digest, sha256
from derive.errors import expected_got
from derive.images.oci import INDEX_TYPE
from derive.net.answers import status_failure
from derive.net.failures import Broken, Failure, Gone, Refused, Wrong
from derive.net.http import Answer, Body, Client
from derive.net.places import Mirror, Place, display, origin
from derive.oci.access import Access, Registry
from derive.oci.answers import error_words, stated_digest, stated_size
from derive.oci.documents import ACCEPT, LONGEST_MANIFEST
from derive.oci.logins import SystemLogins
from derive.oci.urls import blob_url, manifest_url, uploads_url

_READS = frozenset(("GET", "HEAD"))
_LONGEST_PATH = 200
_TAKEN = frozenset((200, 201, 202, 204))


class Remote:
    """A repository to push to, or with ``actions`` of ``pull`` to read alone. Safe for several threads."""

    def __init__(
        self, mirror: Mirror, repository: str, *, client: Client, logins: SystemLogins, actions: str = "pull,push"
    ) -> None:
        self.client = client
        self.repository = repository
        self._registry = Registry(mirror)
        self._access = Access(self._registry, repository, client, logins, actions=actions)

    @property
    def place(self) -> str:
        """The registry as it may be shown."""
        return display(self._registry.url)

    @property
    def host(self) -> str:
        """The registry's host and port."""
        return self._registry.host

    def begin_url(self, *, mount: Digest | None = None, source: str = "") -> str:
        """Return where an upload begins."""
        return uploads_url(self._registry.url, self.repository, mount=mount, source=source)

    def head_blob(self, digest: Digest) -> tuple[bool, int | None]:
        """Say whether a blob is there, and of what size, where the registry states that; retried.

        Raises:
            Failure: when the registry does not say.
        """
        url = blob_url(self._registry.url, self.repository, digest)
        try:
            answer = self.client.retry(url, lambda: self.call("HEAD", url))
        except Gone:
            return False, None
        if stated_digest(answer.headers) not in (None, digest):
            return False, None
        return True, stated_size(answer.headers)

    def blob_place(self, digest: Digest) -> Place:
        """Return where a blob lies, for whoever fetches it."""
        url = blob_url(self._registry.url, self.repository, digest)
        return Place(url=url, proxy=self._registry.mirror.proxy, authorise=self._access.authorise)

    def read_blob(self, digest: Digest, limit: int) -> bytes:
        """Return a small blob of at most ``limit`` bytes, checked; retried.

        Raises:
            Failure: when it cannot be had, or is another one.
        """
        url = blob_url(self._registry.url, self.repository, digest)
        data = self.client.retry(url, lambda: self.call("GET", url, limit=limit)).body
        if sha256(data) != digest:
            raise Wrong("served other bytes", expected_got(digest, sha256(data)))
        return data

    def hash_blob(self, digest: Digest) -> tuple[Digest, int]:
        """Read a blob whole and return what it hashes to, and its size; goes on where a connection broke.

        Raises:
            Failure: when it cannot be read.
        """
        url = blob_url(self._registry.url, self.repository, digest)
        hasher = hashlib.sha256()
        size = 0

        def once(authorization: str | None) -> None:
            nonlocal size
            proxy = self._registry.mirror.proxy
            with self.client.stream(url, offset=size, proxy=proxy, authorization=authorization) as (response, pieces):
                skip = size if response.status_code == 200 else 0
                for piece in pieces:
                    part = piece[min(skip, len(piece)) :]
                    skip -= len(piece) - len(part)
                    hasher.update(part)
                    size += len(part)

        def opened() -> None:
            sent = self._access.authorise(None)
            try:
                once(sent)
            except Refused as failure:
                renewed = self._access.authorise(failure) if failure.status == 401 else None
                if renewed in (None, sent):
                    raise
                once(renewed)

        self.client.retry(url, opened, lambda: size)
        return Digest(hasher.hexdigest()), size

    def manifest(self, named: str) -> bytes | None:
        """Return the bytes of a manifest or index, None where there is none; retried.

        Raises:
            Failure: when the registry does not say.
        """
        url = manifest_url(self._registry.url, self.repository, named)
        headers = {"Accept": ACCEPT}
        try:
            return self.client.retry(url, lambda: self.call("GET", url, headers=headers, limit=LONGEST_MANIFEST)).body
        except Gone:
            return None

    def put_manifest(self, named: str, media_type: str, data: bytes) -> Mapping[str, str]:
        """Write a manifest or index under a digest or a tag, and return the answer's headers; retried.

        Raises:
            Failure: when the registry does not take it.
        """
        url = manifest_url(self._registry.url, self.repository, named)
        body = Body(size=len(data), read=lambda: iter((data,)))
        headers = {"Content-Type": media_type}
        return self.client.retry(url, lambda: self._taken("PUT", url, headers=headers, body=body)).headers

    def put_index(self, tag: str, data: bytes) -> None:
        """Write an index under a tag; raises as :meth:`put_manifest`."""
        self.put_manifest(tag, INDEX_TYPE, data)

    def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        body: Body | None = None,
        limit: int = 1 << 20,
    ) -> Answer:
        """Send one request, with what opens the repository; asked for another login, it is sent once more.

        Raises:
            Failure: for every answer but one of success, with what the registry says.
        """
        # Where a registry has its uploads go elsewhere, that place is told nothing.
        is_own = origin(url) == origin(self._registry.url)
        sent = self._access.authorise(None) if is_own else None
        try:
            return self._once(method, url, headers, body, sent, limit)
        except Failure as failure:
            renewed = self._access.authorise(failure) if is_own and failure.status == 401 else None
            if renewed in (None, sent):
                raise
        return self._once(method, url, headers, body, renewed, limit)

    def _taken(self, method: str, url: str, *, headers: Mapping[str, str], body: Body) -> Answer:
        """Send a manifest; one whose blobs the registry does not see yet is worth another try."""
        try:
            return self.call(method, url, headers=headers, body=body)
        except Gone as failure:
            raise Broken(failure.reason, status=failure.status, headers=failure.headers) from failure

    def _once(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Body | None,
        authorization: str | None,
        limit: int,
    ) -> Answer:
        answer = self.client.call(
            method,
            url,
            headers=headers,
            body=body,
            proxy=self._registry.mirror.proxy,
            authorization=authorization,
            limit=limit,
        )
        if answer.status in _TAKEN:
            return answer
        failure = status_failure(answer.status, answer.reason, answer.headers)
        words = error_words(answer.body)
        if words:
            failure.reason = f"{failure.reason} ({words})"
        if method not in _READS:
            failure.reason = f"{failure.reason}, asked to {method} {urlsplit(url).path[:_LONGEST_PATH]}"
        raise failure
