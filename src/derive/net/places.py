# SPDX-License-Identifier: Apache-2.0
"""What is wanted, and where it may be served: a locator has no host, a mirror has nothing else.

Core: no IO.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from derive.canonical import Digest

Archive: TypeAlias = Literal["debian", "debian-security"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DebPath:
    """A file of a Debian archive: ``pool/...``, as its indices name it."""

    archive: Archive
    path: str

    def __str__(self) -> str:
        return self.path if self.archive == "debian" else f"{self.archive}: {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFile:
    """A file of a project on a Python package index; ``project`` is the normalised name."""

    project: str
    file: str

    def __str__(self) -> str:
        return f"{self.project}: {self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainUrl:
    """A file at an upstream's own URL."""

    url: str

    def __str__(self) -> str:
        return display(self.url)


Locator: TypeAlias = DebPath | WheelFile | PlainUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One artifact by hash. ``size`` is in bytes, None where nobody has stated it."""

    name: str
    version: str
    locator: Locator
    sha256: Digest
    size: int | None

    @property
    def file(self) -> str:
        """The artifact's file name."""
        match self.locator:
            case DebPath(path=path):
                return path.rpartition("/")[2]
            case WheelFile(file=file):
                return file
            case PlainUrl(url=url):
                from urllib.parse import urlsplit

                return urlsplit(url).path.rpartition("/")[2] or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """The root of an archive or index, without a closing slash.

    ``proxy`` is one that only this mirror needs; ``extra`` marks an index with contents of its own, searched beside
    the main one.
    """

    url: str
    proxy: str | None = None
    extra: bool = False


class MirrorSource(Protocol):
    """Where things are served, for this run. Each is found on first use."""

    def debian(self) -> tuple[Mirror, ...]:
        """Return Debian archives, in order of preference; raises HostRefuses when there is none."""

    def security(self) -> tuple[Mirror, ...]:
        """Return Debian security archives; raises HostRefuses when there is none."""

    def python(self) -> tuple[Mirror, ...]:
        """Return Python package indices (simple API); raises HostRefuses when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedMirrors:
    """Mirrors that are known beforehand."""

    debian_archives: tuple[Mirror, ...] = ()
    security_archives: tuple[Mirror, ...] = ()
    python_indices: tuple[Mirror, ...] = ()

    def debian(self) -> tuple[Mirror, ...]:
        """Return the Debian archives."""
        return self.debian_archives

    def security(self) -> tuple[Mirror, ...]:
        """Return the Debian security archives."""
        return self.security_archives

    def python(self) -> tuple[Mirror, ...]:
        """Return the Python package indices."""
        return self.python_indices


def archive_of(suite: str) -> Archive:
    """Say which of Debian's archives serves a suite."""
    return "debian-security" if suite.endswith("-security") else "debian"


def archive_url(mirror: Mirror, path: str) -> str:
    """Return the URL of a pool path; characters are escaped as apt escapes them."""
    from urllib.parse import quote

    return f"{mirror.url}/{quote(path, safe='/~')}"


def origin(url: str) -> str:
    """Return scheme, host and port: what is dead when a mirror is dead."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return f"{parts.scheme}://{_host(parts.netloc)}"


def display(url: str) -> str:
    """Return a URL as it may be shown: without credentials, query or fragment."""
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(url)
    return urlunsplit((parts.scheme, _host(parts.netloc), parts.path, "", ""))


def hide_credentials(text: str) -> str:
    """Remove credentials from every URL inside a message of another program."""
    return re.sub(r"([a-z][a-z0-9+.-]*://)[^/\s@]*@", r"\1", text)


def _host(netloc: str) -> str:
    return netloc.rpartition("@")[2]
