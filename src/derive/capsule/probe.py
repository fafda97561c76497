# SPDX-License-Identifier: Apache-2.0
"""Asks mirrors whether they still serve an artifact, and takes none of it: one small request each.

Edge: the network, git.

A host that does not answer is asked no more, and said once. What a mirror would serve is not hashed: that it has a file
of that name, and of that size where it tells, is all that a request without contents can say.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import Digest, Json
from derive.errors import DeriveError
from derive.net.failures import Failure
from derive.net.names import normalise
from derive.net.places import Mirror, Place, archive_of, archive_url

if TYPE_CHECKING:
    from derive.build.upstream_fetching import UpstreamFetcher
    from derive.derivations.model import Derivation
    from derive.net.fetch import Fetcher
    from derive.net.http import Answer
    from derive.net.places import MirrorSource

AT_ONCE = 16
"""Requests that are under way together."""


class Prober:
    """Asks the mirrors of one run. Safe for several threads."""

    def __init__(self, fetcher: Fetcher, upstreams: UpstreamFetcher, mirrors: MirrorSource) -> None:
        self._fetcher = fetcher
        self._upstreams = upstreams
        self._mirrors = mirrors

    def served(self, fetches: Iterable[Derivation]) -> frozenset[Digest]:
        """Return the ids of the fetches that some mirror still serves."""
        every = sorted(set(fetches), key=lambda one: one.id)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="probe") as pool:
            found = list(pool.map(self._is_served, every))
        return frozenset(one.id for one, is_served in zip(every, found, strict=True) if is_served)

    def having(self, urls: Iterable[str]) -> frozenset[str]:
        """Return the URLs that answer that they have a file."""
        every = sorted(set(urls))
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="probe") as pool:
            found = list(pool.map(lambda url: self.has(Place(url=url)), every))
        return frozenset(url for url, has in zip(every, found, strict=True) if has)

    def has(self, place: Place, size: int | None = None) -> bool:
        """Say whether a URL answers that it has a file, of that size in bytes where both are known."""
        try:
            answer = self._head(place)
        except Failure:
            return False
        length = answer.headers.get("content-length", "")
        encoded = "content-encoding" in answer.headers or answer.status == 206
        return encoded or size is None or not length.isdigit() or int(length) == size

    def _is_served(self, fetch: Derivation) -> bool:
        try:
            return self._ask(fetch)
        except (DeriveError, Failure):  # no mirror is configured, none answers, or an index lists nothing
            return False

    def _ask(self, fetch: Derivation) -> bool:
        arguments = fetch.arguments
        size = arguments.get("size")
        known = size if isinstance(size, int) else None
        match fetch.builder:
            case "fetch-deb" | "fetch-source":
                places = self._debian(arguments)
            case "fetch-wheel":
                places = self._wheel(arguments)
            case "fetch-url":
                places = [Place(url=fetch.places[0])]
            case "fetch-huggingface":
                places = self._huggingface(arguments)
            case "fetch-oci":
                return self._oci(arguments)
            case "fetch-git":
                return self._git(fetch)
            case _:
                return False
        return any(self.has(place, known) for place in places)

    def _head(self, place: Place) -> Answer:
        """Ask for a file's headers; of a host that answers no HEAD, for its first byte."""
        client = self._fetcher.client
        authorization = place.authorise(None) if place.authorise is not None else None
        answer = client.retry(
            place.url, lambda: client.call("HEAD", place.url, proxy=place.proxy, authorization=authorization)
        )
        if answer.status in (405, 501):
            first = "bytes=0-0"
            return client.get(place.url, span=first, proxy=place.proxy, authorization=authorization)
        if answer.status not in (200, 206):
            raise Failure(f"answered {answer.status}", status=answer.status)
        return answer

    def _debian(self, arguments: Mapping[str, Json]) -> Sequence[Place]:
        is_plain = archive_of(str(arguments["suite"])) == "debian"
        mirrors: tuple[Mirror, ...] = self._mirrors.debian() if is_plain else self._mirrors.security()
        path = str(arguments["locator"])
        return [Place(url=archive_url(mirror, path), proxy=mirror.proxy) for mirror in mirrors]

    def _wheel(self, arguments: Mapping[str, Json]) -> Sequence[Place]:
        listed = self._fetcher.project(normalise(str(arguments["name"])))
        return [Place(url=one.url) for one in listed if one.file == arguments["file"]]

    def _huggingface(self, arguments: Mapping[str, Json]) -> Sequence[Place]:
        from derive.huggingface.model import HfPin

        pin = HfPin(
            repository=str(arguments["repository"]),
            kind="dataset" if arguments["contents"] == "dataset" else "model",
            revision=str(arguments["revision"]),
            files=(),
        )
        return self._upstreams.hubs().places(pin, str(arguments["file"]))

    def _oci(self, arguments: Mapping[str, Json]) -> bool:
        layers = arguments["layers"]
        assert isinstance(layers, list | tuple)
        registries, repository = self._upstreams.registries(), str(arguments["repository"])
        for blob in (arguments["config"], *layers):
            assert isinstance(blob, Mapping)
            places = registries.places(repository, Digest(str(blob["sha256"])))
            if not any(self.has(place) for place in places):
                return False
        return True

    def _git(self, fetch: Derivation) -> bool:
        from derive.build.upstream_fetching import bases
        from derive.git.failures import GitFailure
        from derive.git.places import places
        from derive.git.scratch import Scratch

        arguments = fetch.arguments
        name, commit = str(arguments["name"]), str(arguments["commit"])
        with tempfile.TemporaryDirectory(prefix="derive-probe-") as folder:
            scratch = Scratch(self._upstreams.git_session(), Path(folder, "top"), name)
            for place in places((fetch.places[0],), bases(self._mirrors.git()), name):
                try:
                    if scratch.has_commit(place, commit):
                        return True
                except GitFailure:
                    continue
        return False
