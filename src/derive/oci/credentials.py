# SPDX-License-Identifier: Apache-2.0
"""How a registry says who may read, and what Docker's own settings say that this person is.

Core: no IO.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote, urlencode, urljoin, urlsplit, urlunsplit

from derive.errors import InputErrors
from derive.net.failures import Refused
from derive.oci.answers import shown

_SCHEME = re.compile(r"\s*(?:,\s*)*([A-Za-z0-9._~+-]+)(?:\s+|$|,)")
_PARAMETER = re.compile(r'\s*,?\s*([A-Za-z0-9._~+-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))')
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """A token must be fetched from ``realm`` first."""

    realm: str
    service: str
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Basic:
    """The registry takes a name and a password itself."""


Challenge: TypeAlias = Bearer | Basic


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Login:
    """A name and a password; neither is ever shown."""

    username: str
    password: str

    @property
    def header(self) -> str:
        """The value of an Authorization header."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerLogins:
    """Logins by host (``name`` or ``name:port``), and the helper programs that hold others.

    ``store`` is the helper for every host that nothing else is said of.
    """

    logins: Mapping[str, Login]
    helpers: Mapping[str, str]
    store: str | None

    def helper(self, host: str) -> str | None:
        """Return the suffix of the program to ask about a host, or None."""
        return self.helpers.get(host, self.store)


NO_LOGINS = DockerLogins(logins={}, helpers={}, store=None)


def parse_challenge(header: str) -> Challenge | None:
    """Read a WWW-Authenticate header: its first Bearer challenge, else a Basic one, else None."""
    found: dict[str, dict[str, str]] = {}
    place = 0
    while scheme := _SCHEME.match(header, place):
        place = scheme.end()
        parameters = found.setdefault(scheme[1].lower(), {})
        while parameter := _PARAMETER.match(header, place):
            place = parameter.end()
            quoted = parameter[2]
            value = parameter[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            parameters.setdefault(parameter[1].lower(), value)
    bearer = found.get("bearer", {})
    if "realm" in bearer:
        return Bearer(realm=bearer["realm"], service=bearer.get("service", ""), scope=bearer.get("scope", ""))
    return Basic() if "basic" in found else None


def token_url(challenge: Bearer, *, registry: str, repository: str, actions: str = "pull") -> str | None:
    """Return where to ask for a token that allows ``actions``, or None where a login must not be sent.

    A registry that is reached by TLS may not send anybody's password into the open.

    Raises:
        Refused: when the registry names what is no URL.
    """
    try:
        realm = urlsplit(urljoin(registry, challenge.realm))
    except ValueError:
        message = f"wants a token from what is no URL: realm {shown(challenge.realm)}"
        raise Refused(message, status=401) from None
    secure = urlsplit(registry).scheme == "https"
    if realm.scheme not in ("http", "https") or not realm.hostname or (secure and realm.scheme != "https"):
        return None
    query = parse_qsl(realm.query)
    if challenge.service:
        query.append(("service", challenge.service))
    query.append(("scope", _widened(challenge.scope, repository, actions) or f"repository:{repository}:{actions}"))
    return urlunsplit((realm.scheme, realm.netloc, realm.path, urlencode(query), ""))


def _widened(scope: str, repository: str, actions: str) -> str:
    """Return the scope that a registry named, with all that will be done there: it asks for what is done first."""
    if actions == "pull":
        return scope
    words = []
    for word in scope.split():
        name, _, _ = word.rpartition(":")
        kind, _, own = name.partition(":")
        # The registry may know the repository by a longer name than the one that stands behind its URL.
        is_own = kind == "repository" and f"/{own}".endswith(f"/{repository}")
        words.append(f"{name}:{actions}" if is_own else word)
    return " ".join(words)


def parse_token(data: bytes) -> str | None:
    """Read a token server's answer, or return None when it holds no token that a header can carry."""
    try:
        document = json.loads(data.decode("utf-8"))
    except ValueError:
        return None
    if not isinstance(document, Mapping):
        return None
    token = document.get("token") or document.get("access_token")
    return token if isinstance(token, str) and token.isascii() and token.isprintable() else None


def parse_docker_config(data: bytes, file: str) -> DockerLogins:
    """Read Docker's ``config.json``; what it holds beside logins is not looked at.

    Raises:
        InputErrors: when it cannot be read; no part of it is shown.
    """
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputErrors.one("Docker's settings are not readable as JSON", where=file) from error
    if not isinstance(document, Mapping):
        raise InputErrors.one("Docker's settings are no JSON object", where=file)
    logins: dict[str, Login] = {}
    for key, value in _mapping(document.get("auths")).items():
        host, login = host_key(key), _login(_mapping(value))
        if host is not None and login is not None:
            logins.setdefault(host, login)
    helpers: dict[str, str] = {}
    for key, value in _mapping(document.get("credHelpers")).items():
        host, helper = host_key(key), _helper(value)
        if host is not None and helper is not None:
            helpers[host] = helper
    return DockerLogins(logins=logins, helpers=helpers, store=_helper(document.get("credsStore")))


def parse_helper(data: bytes) -> Login | None:
    """Read what a credential helper printed; None where it holds no name and password.

    An identity token, which comes under the name ``<token>``, is no password.
    """
    try:
        found = _mapping(json.loads(data.decode("utf-8")))
    except ValueError:
        return None
    username, secret = found.get("Username"), found.get("Secret")
    if not isinstance(username, str) or not isinstance(secret, str) or username in ("", "<token>"):
        return None
    return Login(username=username, password=secret)


def split_login(url: str) -> tuple[str, Login | None]:
    """Return a URL without the name and password in it, and those."""
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    username, _, password = userinfo.partition(":")
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    return bare, Login(username=unquote(username), password=unquote(password))


def host_key(text: str) -> str | None:
    """Return the host (and port) of a key in Docker's settings, which may be a URL; None for a part of a host."""
    host, _, path = text.partition("://")[2 if "://" in text else 0].partition("/")
    return host if host and path.strip("/") in ("", "v1", "v2") else None


def _login(entry: Mapping[str, object]) -> Login | None:
    username, password, packed = entry.get("username"), entry.get("password"), entry.get("auth")
    if isinstance(packed, str) and packed:
        try:
            username, colon, password = base64.b64decode(packed).decode("utf-8").partition(":")
        except ValueError:
            return None
        password = password.rstrip("\0")
        if not colon:
            return None
    if not isinstance(username, str) or not isinstance(password, str) or not username:
        return None
    return Login(username=username, password=password)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _helper(name: object) -> str | None:
    return name if isinstance(name, str) and _HELPER.fullmatch(name) else None
