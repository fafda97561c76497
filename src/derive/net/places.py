# SPDX-License-Identifier: Apache-2.0
"""What is wanted, and where it may be served: a locator has no host, a mirror has nothing else.

Core: no IO.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, assert_never

from derive.canonical import Digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from derive.net.failures import Failure

_UNREADABLE = "an unreadable URL"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A file that its ecosystem names in words of its own; whoever wants it knows the URLs.

    ``text`` is what messages call it; ``file`` is its file name.
    """

    text: str
    file: str

    def __str__(self) -> str:
        return self.text


Locator: TypeAlias = DebPath | WheelFile | PlainUrl | Named


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One artifact by hash. ``size`` is in bytes, None where nobody has stated it."""

    name: str
    version: str
    locator: Locator
    sha256: Digest
    size: int | None

    @property
    def subject(self) -> str:
        """What messages call it: name and version."""
        return f"{self.name} {self.version}".rstrip()

    @property
    def file(self) -> str:
        """The artifact's file name."""
        match self.locator:
            case DebPath(path=path):
                return path.rpartition("/")[2]
            case WheelFile(file=file) | Named(file=file):
                return file
            case PlainUrl(url=url):
                return display(url).rpartition("/")[2] or self.name
            case _:
                assert_never(self.locator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """The root of an archive or index, without a closing slash.

    ``proxy`` is one that only this mirror needs; ``extra`` marks an index with contents of its own, searched beside
    the main one.
    """

    url: str
    proxy: str | None = None
    extra: bool = False


Authorise: TypeAlias = "Callable[[Failure | None], str | None]"
"""Gives the value of an Authorization header, or None for a request without one.

Asked with None before an attempt; with the failure once, when an attempt was answered with status 401: another value
is tried at once, None means that there is none. It may raise Failure. Called from several threads.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one artifact may lie: its whole URL. ``authorise`` speaks for the URL's own origin alone."""

    url: str
    proxy: str | None = None
    authorise: Authorise | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFolder:
    """A folder that keeps artifacts by hash: ``blobs/sha256/<hex>`` lies in it. ``path`` is absolute."""

    path: str

    def __str__(self) -> str:
        return self.path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSite:
    """An HTTP base that serves artifacts by hash, at ``<url>/blobs/sha256/<hex>``; without a closing slash."""

    url: str

    def __str__(self) -> str:
        return display(self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveTar:
    """The same folder as one uncompressed tar, such as a capsule. ``path`` is absolute and ends in ``.tar``."""

    path: str

    def __str__(self) -> str:
        return self.path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


ArchivePlace: TypeAlias = ArchiveFolder | ArchiveSite | ArchiveTar


class MirrorSource(Protocol):
    """Where things are served, for this run. Each is found on first use."""

    def debian(self) -> tuple[Mirror, ...]:
        """Return Debian archives, in order of preference; raises HostRefuses when there is none."""

    def security(self) -> tuple[Mirror, ...]:
        """Return Debian security archives; raises HostRefuses when there is none."""

    def python(self) -> tuple[Mirror, ...]:
        """Return Python package indices (simple API); raises HostRefuses when there is none."""

    def git(self) -> tuple[Mirror, ...]:
        """Return bases of git mirrors, asked before an upstream's own URL; empty when there is none."""

    def oci(self) -> tuple[Mirror, ...]:
        """Return bases of OCI registries; empty when there is none."""

    def huggingface(self) -> tuple[Mirror, ...]:
        """Return endpoints of the Hugging Face API; empty when there is none."""

    def archives(self) -> tuple[ArchivePlace, ...]:
        """Return places that keep artifacts by hash, asked after every mirror; empty when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedMirrors:
    """Mirrors that are known beforehand."""

    debian_archives: tuple[Mirror, ...] = ()
    security_archives: tuple[Mirror, ...] = ()
    python_indices: tuple[Mirror, ...] = ()
    git_mirrors: tuple[Mirror, ...] = ()
    oci_registries: tuple[Mirror, ...] = ()
    huggingface_endpoints: tuple[Mirror, ...] = ()
    archive_places: tuple[ArchivePlace, ...] = ()

    def debian(self) -> tuple[Mirror, ...]:
        """Return the Debian archives."""
        return self.debian_archives

    def security(self) -> tuple[Mirror, ...]:
        """Return the Debian security archives."""
        return self.security_archives

    def python(self) -> tuple[Mirror, ...]:
        """Return the Python package indices."""
        return self.python_indices

    def git(self) -> tuple[Mirror, ...]:
        """Return the bases of git mirrors."""
        return self.git_mirrors

    def oci(self) -> tuple[Mirror, ...]:
        """Return the OCI registries."""
        return self.oci_registries

    def huggingface(self) -> tuple[Mirror, ...]:
        """Return the Hugging Face endpoints."""
        return self.huggingface_endpoints

    def archives(self) -> tuple[ArchivePlace, ...]:
        """Return the places that keep artifacts by hash."""
        return self.archive_places


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

    try:
        parts = urlsplit(url)
    except ValueError:
        return _UNREADABLE
    return f"{parts.scheme}://{_host(parts.netloc)}"


def display(url: str) -> str:
    """Return a URL as it may be shown: without credentials, query or fragment."""
    from urllib.parse import urlsplit, urlunsplit

    try:
        parts = urlsplit(url)
    except ValueError:  # nobody can say where its credentials end
        return _UNREADABLE
    return urlunsplit((parts.scheme, _host(parts.netloc), parts.path, "", ""))


def hide_credentials(text: str) -> str:
    """Remove credentials from every URL inside a message of another program."""
    return re.sub(r"([a-z][a-z0-9+.-]*://)[^/\s@]*@", r"\1", text)


def _host(netloc: str) -> str:
    return netloc.rpartition("@")[2]
