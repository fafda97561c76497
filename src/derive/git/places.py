# SPDX-License-Identifier: Apache-2.0
"""Where a repository may be served: mirrors first, relative submodules as git reads them, and what may be shown.

Core: no IO.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from derive.net.places import display, hide_credentials

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# host:path, as ssh is written short: no slash before the first colon, or it would be a path.
_SHORT = re.compile(r"(?:([^/:@]+)@)?(\[[^]]+\]|[^/:]+):(?!//)(.*)")
_HELPER = re.compile(r"[A-Za-z0-9+.-]+::")


@dataclass(frozen=True, slots=True)
class Place:
    """One URL that a repository may be had from; ``local``: a folder of this machine may be meant by it."""

    url: str
    local: bool = False

    @property
    def shown(self) -> str:
        """The URL as it may be shown."""
        return display(self.url) if _SCHEME.match(self.url) else self.url

    @property
    def origin(self) -> str:
        """What does not answer when this place does not: scheme and host, empty for a folder."""
        if is_folder(self.url):
            return ""
        parts = _SHORT.fullmatch(self.url)
        if parts is not None and not _SCHEME.match(self.url):
            return f"ssh://{parts[2]}"
        split = urlsplit(self.url)
        return f"{split.scheme}://{split.netloc.rpartition('@')[2]}"

    def redact(self, text: str) -> str:
        """Take this URL's credentials, and those of any other, out of another program's message."""
        if _SCHEME.match(self.url):
            user, at, _ = urlsplit(self.url).netloc.rpartition("@")
            if at:
                text = text.replace(f"{user}@", "")
                secret = user.partition(":")[2]
                text = text.replace(secret, "...") if len(secret) > 3 else text
        return hide_credentials(text)


def is_folder(url: str) -> bool:
    """Say whether a URL means a folder of this machine."""
    scheme = _SCHEME.match(url)
    if scheme is not None:
        return scheme[1].lower() == "file"
    return not _HELPER.match(url) and not _SHORT.fullmatch(url)


def mirror_urls(mirrors: Sequence[str], name: str, url: str) -> tuple[str, ...]:
    """Return where mirrors would serve an upstream: ``<base>/<host>/<path>.git``, then ``<base>/<name>.git``.

    Nothing is said of whether they do.
    """
    found: dict[str, None] = {}
    path = _host_and_path(url)
    for mirror in mirrors:
        base = mirror.rstrip("/")
        if path:
            found[f"{base}/{path}.git"] = None
        found[f"{base}/{name}.git"] = None
    return tuple(found)


def places(urls: Iterable[str], mirrors: Sequence[str], name: str) -> tuple[Place, ...]:
    """Return where to ask for an upstream, in order: every mirror, then the URLs that a person wrote."""
    urls = tuple(urls)
    tried: dict[str, None] = {}
    for url in urls:
        tried.update(dict.fromkeys(mirror_urls(mirrors, name, url)))
    tried.update(dict.fromkeys(urls))
    return tuple(Place(url, local=is_folder(url)) for url in tried)


def submodule_places(url: str, parents: Sequence[Place], mirrors: Sequence[str]) -> tuple[Place, ...]:
    """Return where to ask for a submodule whose ``.gitmodules`` gives this URL.

    ``parents``: where the repository around it is served, the upstream's own place first. A folder of this machine is
    asked only where the parent is one itself, or a mirror is: a repository does not get to choose such a place.
    """
    found: dict[str, Place] = {}
    for parent in parents:
        resolved = join_url(parent.url, url)
        for mirrored in mirror_urls(mirrors, base_name(resolved), resolved):
            found.setdefault(mirrored, Place(mirrored, local=is_folder(mirrored)))
    for parent in parents:
        resolved = join_url(parent.url, url)
        if not is_folder(resolved) or parent.local:
            found.setdefault(resolved, Place(resolved, local=is_folder(resolved)))
    return tuple(found.values())


def join_url(parent: str, url: str) -> str:
    """Resolve a submodule's URL: one that begins with ``./`` or ``../`` is relative to the repository around it."""
    if not url.startswith(("./", "../")):
        return url
    base = parent.rstrip("/")
    rest = url
    colon = False
    while rest.startswith(("./", "../")):
        if rest.startswith("./"):
            rest = rest[2:]
            continue
        rest = rest[3:]
        head, slash, _ = base.rpartition("/")
        if slash:
            base = head
        elif ":" in base:
            base, colon = base.rpartition(":")[0], True
        else:
            base = "."
    return f"{base}{':' if colon else '/'}{rest}".rstrip("/")


def base_name(url: str) -> str:
    """Return the last part of a URL's path, without ``.git``."""
    return re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git")


def is_ssh(url: str) -> bool:
    """Say whether git would start ssh for a URL."""
    scheme = _SCHEME.match(url)
    if scheme is not None:
        return scheme[1].lower() in ("ssh", "git+ssh", "ssh+git")
    return not is_folder(url) and not _HELPER.match(url)


def _host_and_path(url: str) -> str:
    """Return ``host/path`` of a URL, without port, user and ``.git``; empty for a folder of this machine."""
    if is_folder(url):
        return ""
    short = _SHORT.fullmatch(url)
    if short is not None and not _SCHEME.match(url):
        host, path = short[2].strip("[]"), short[3]
    else:
        split = urlsplit(url)
        host, path = split.hostname or "", split.path
    clean = "/".join(_plain_parts(path)).removesuffix(".git")
    return f"{host}/{clean}" if host and clean else ""


def _plain_parts(path: str) -> Iterator[str]:
    normal = posixpath.normpath("/" + path.strip("/"))
    return (part for part in normal.split("/") if part)
