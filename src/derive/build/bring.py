# SPDX-License-Identifier: Apache-2.0
"""Brings a blob that a store lost back into it: from where its fetch had it, else from archives.

Edge: the network, through derive.net and what asks upstreams.
"""

from __future__ import annotations

from derive.build.fetching import StoreFetch
from derive.canonical import Digest
from derive.derivations.model import ResolvedDerivation
from derive.store.history import sources_of
from derive.store.local import LocalStore


def bring(fetch: StoreFetch, store: LocalStore, digest: Digest, name: str, request: ResolvedDerivation | None) -> None:
    """Bring a blob back; ``request`` is the fetch that gave it, None where no single fetch did.

    Raises:
        DeriveError: when nobody serves it.
    """
    match None if request is None else request.builder:
        case "fetch-url":
            # A project's wish names its place, and the store remembers where it came from.
            places = [one.place for one in sources_of(store.database, [digest]) if "://" in one.place]
            if request is not None and places:
                fetch.upstream(request, store, places)
                return
        case "fetch-oci" | "fetch-huggingface":
            assert request is not None
            fetch.upstream(request, store, ())
            return
        case "fetch-deb" | "fetch-source" | "fetch-wheel":
            assert request is not None
            fetch(request, store)
            return
        case _:
            pass
    fetch.fetcher(store).fetch_blob(digest, None, name)
