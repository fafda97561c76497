# SPDX-License-Identifier: Apache-2.0
"""The hubs of one run: commits, lists of files, places of contents, and the token that a closed repository needs.

Edge: the network, through derive.net, and the person's token.

A hub sees the token only after it has refused to answer without, and never over an open connection: a mirror that
serves everybody never has it.
"""

from __future__ import annotations

import ipaddress
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from derive.canonical import escape
from derive.errors import Corrupt, HostRefuses, Unavailable, expected_got
from derive.huggingface.listing import (
    all_files,
    check_contents,
    file_url,
    parse_commit,
    parse_page,
    revision_url,
    tree_url,
)
from derive.huggingface.model import HfFile, HfPin, Kind, is_revision
from derive.huggingface.refusals import verdict
from derive.huggingface.token import find_token
from derive.net.failures import Failure, Refused, Tried
from derive.net.http import Answer, Client
from derive.net.links import next_page
from derive.net.places import Mirror, Place, display
from derive.net.progress import Progress, Quiet

T = TypeVar("T")

_PAGES = 10_000  # of a thousand files each


class Hubs:
    """Where models are served, in order of preference. Safe for several threads."""

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
        self._offline = offline
        settings = dict(os.environ if environ is None else environ)
        self._hubs = tuple(_Hub(mirror, settings, progress or Quiet()) for mirror in mirrors)

    def require(self) -> None:
        """Raise HostRefuses when no hub is configured."""
        if not self._hubs:
            raise HostRefuses(
                "no Hugging Face endpoint is configured",
                hint="export DERIVE_MIRROR_HF=<url of a hub>, or set hf under [mirrors] in your config.toml",
            )

    def commit(self, repository: str, revision: str, *, kind: Kind = "model") -> str:
        """Return which commit a branch, a tag or a commit is now.

        Raises:
            UpstreamGone: no hub has the repository, or the revision.
            Unavailable: it could not be asked now, or not without a token, or without accepting its terms.
            Corrupt: the answer is none.
        """
        return self._first(repository, revision, lambda hub: self._commit(hub, kind, repository, revision))

    def files(self, repository: str, revision: str, *, kind: Kind = "model") -> tuple[str, tuple[HfFile, ...]]:
        """Return a revision's commit, and its files with what the hub states of them; raises as :meth:`commit`."""

        def ask(hub: _Hub) -> tuple[str, tuple[HfFile, ...]]:
            commit = self._commit(hub, kind, repository, revision)
            where = f"{repository}@{commit[:12]}"
            found: list[HfFile] = []
            url = tree_url(hub.url, kind, repository, commit)
            for _ in range(_PAGES):
                answer = self._get(hub, url)
                found += parse_page(answer.body, where=where)
                after = next_page(answer.headers.get("link", ""), url)
                if after is None:
                    return commit, all_files(found, where=where)
                url = after
            raise Refused(f"lists its files on more than {_PAGES} pages")

        return self._first(repository, revision, ask)

    def contents(self, pin: HfPin, file: HfFile) -> bytes:
        """Return a small file whole, checked against the commit.

        Raises:
            UpstreamGone: no hub serves it.
            Corrupt: it is not the file that is committed.
            Unavailable: as :meth:`commit`.
        """
        where = f"{pin.repository}@{pin.revision[:12]}: {escape(file.path.encode())}"

        def ask(hub: _Hub) -> bytes:
            url = file_url(hub.url, pin.kind, pin.repository, pin.revision, file.path)
            data = self._get(hub, url, accept="*/*").body
            check_contents(file, data, where=where)
            return data

        return self._first(pin.repository, pin.revision, ask, path=file.path)

    def places(self, pin: HfPin, path: str) -> tuple[Place, ...]:
        """Return where a file may lie, in order of preference."""
        return tuple(
            Place(
                url=file_url(hub.url, pin.kind, pin.repository, pin.revision, path),
                proxy=hub.proxy,
                authorise=hub.authorise,
            )
            for hub in self._hubs
        )

    def _commit(self, hub: _Hub, kind: Kind, repository: str, revision: str) -> str:
        where = f"{repository}@{revision}"
        commit = parse_commit(self._get(hub, revision_url(hub.url, kind, repository, revision)).body, where=where)
        if is_revision(revision) and commit != revision:
            raise Corrupt("the hub answers for another commit", where=where, detail=expected_got(revision, commit))
        return commit

    def _get(self, hub: _Hub, url: str, *, accept: str = "application/json") -> Answer:
        sent = hub.authorise(None)
        try:
            return self._client.get(url, accept=accept, proxy=hub.proxy, authorization=sent)
        except Refused as failure:
            header = hub.authorise(failure) if failure.status == 401 else None
            if header in (None, sent):
                raise
        return self._client.get(url, accept=accept, proxy=hub.proxy, authorization=header)

    def _first(self, repository: str, revision: str, ask: Callable[[_Hub], T], path: str | None = None) -> T:
        subject = f"{repository}@{revision}"
        if self._offline:
            raise Unavailable(f"{subject} is not read offline", hint="run it once without --offline")
        self.require()
        tried: list[Tried] = []
        damaged: Corrupt | None = None
        for hub in self._hubs:
            try:
                return ask(hub)
            except Failure as failure:
                tried.append(Tried(place=display(hub.url), failure=failure))
            except Corrupt as error:
                damaged = damaged or error
        raise damaged or verdict(repository, revision, tried, path=path)


class _Hub:
    """One hub, and the header that opens what it keeps closed; None until it has asked for one."""

    def __init__(self, mirror: Mirror, environ: Mapping[str, str], progress: Progress) -> None:
        self.url = mirror.url
        self.proxy = mirror.proxy
        self._environ = environ
        self._progress = progress
        self._header: str | None = None
        self._guard = threading.Lock()
        self._told = False

    def authorise(self, failure: Failure | None) -> str | None:
        """Return the header to send, or None; with a failure, what may open the hub that refused.

        That may be what was sent, when it does not open it, or what another thread was given meanwhile.
        """
        if failure is None:
            return self._header
        with self._guard:
            token = find_token(self._environ)
            if token is None:
                return None
            if not _is_private(self.url):
                if not self._told:
                    self._progress.note(f"{display(self.url)} is reached without TLS: it does not get the token")
                self._told = True
                return None
            self._header = f"Bearer {token}"
            return self._header


def _is_private(url: str) -> bool:
    """Say whether nobody else can listen: TLS, or this machine itself."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    return parts.scheme == "https" or loopback
