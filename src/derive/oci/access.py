# SPDX-License-Identifier: Apache-2.0
"""One registry, and what opens a repository of it: logins and tokens, as the registry asks for them.

Edge: the network, through derive.net, and the person's logins.
"""

from __future__ import annotations

from typing import assert_never
from urllib.parse import urlsplit

from derive.net.failures import Failure, Gone, Refused
from derive.net.http import Client
from derive.net.places import Mirror
from derive.oci.credentials import Basic, Bearer, Login, parse_challenge, parse_token, split_login, token_url
from derive.oci.logins import SystemLogins

_LONGEST_TOKEN = 1 << 20


class Registry:
    """One registry: its URL without a login, and the login that the URL had."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.url, self.login = split_login(mirror.url)

    @property
    def host(self) -> str:
        """Host and port, which logins are kept by."""
        return urlsplit(self.url).netloc


class Access:
    """What opens one repository of one registry; found out when it first refuses, and again when that runs out.

    ``actions`` is what a token is to allow: ``pull``, or ``pull,push``.
    """

    def __init__(
        self, registry: Registry, repository: str, client: Client, logins: SystemLogins, *, actions: str = "pull"
    ) -> None:
        self._registry = registry
        self._actions = actions
        self._repository = repository
        self._client = client
        self._logins = logins
        self._header: str | None = None

    def authorise(self, failure: Failure | None) -> str | None:
        """Return the header to send, or None; with a failure, what opens the place that refused.

        That may be what was sent, when it does not open it, or what another thread has found out meanwhile.

        Raises:
            Failure: when the server of tokens gives none.
        """
        if failure is None:
            return self._header
        challenge = parse_challenge(failure.headers.get("www-authenticate", ""))
        match challenge:
            case None:
                return None
            case Basic():
                login = self._login()
                header = login.header if login else None
            case Bearer():
                header = self._token(challenge)
            case _:
                assert_never(challenge)
        self._header = header
        return header

    def _login(self) -> Login | None:
        return self._registry.login or self._logins.login(self._registry.host)

    def _token(self, challenge: Bearer) -> str:
        url = token_url(challenge, registry=self._registry.url, repository=self._repository, actions=self._actions)
        if url is None:
            raise Refused("wants a token from a place without TLS", status=401)
        login = self._login()
        try:
            answer = self._client.get(
                url,
                accept="application/json",
                proxy=self._registry.mirror.proxy,
                limit=_LONGEST_TOKEN,
                authorization=login.header if login else None,
            )
        except Gone as failure:
            raise Refused(f"its server of tokens says {failure.reason}", status=failure.status) from failure
        except Failure as failure:
            failure.reason = f"its server of tokens says {failure.reason}"
            raise
        token = parse_token(answer.body)
        if token is None:
            raise Refused("its server of tokens gives no token")
        return f"Bearer {token}"
