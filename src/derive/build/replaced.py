# SPDX-License-Identifier: Apache-2.0
"""What an upstream serves now in place of something that is gone: words for a person, and nothing else.

The indices read here are not checked against any signature: ``derive lock`` asks again, and checks.

Edge: the network.
"""

from __future__ import annotations

import gzip
import io
import lzma
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, cast

from derive.derivations.model import ResolvedDerivation
from derive.errors import DeriveError, UpstreamGone
from derive.net.failures import Failure, Gone
from derive.net.fetch import Fetcher
from derive.net.names import normalise
from derive.net.places import Mirror, MirrorSource, archive_of

_LARGEST_INDEX = 1 << 30
_LONGEST_LINE = 1 << 20
_ENDINGS = (".xz", ".gz", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Versions that ``where`` has of a package now, oldest first; none when it has no such package any more."""

    where: str
    versions: tuple[str, ...]


class Replacements:
    """Looks up what is served now; each index is read once. Safe for several threads."""

    def __init__(self, fetcher: Fetcher, mirrors: MirrorSource) -> None:
        self._fetcher = fetcher
        self._mirrors = mirrors
        self._guard = threading.Lock()
        self._indices: dict[str, Mapping[str, tuple[str, ...]] | None] = {}

    def explained(self, error: UpstreamGone, request: ResolvedDerivation) -> UpstreamGone:
        """Add to an error what is served now, where that can be found out."""
        name, version = str(request.arguments["name"]), str(request.arguments["version"])
        try:
            served = self._served(request, name)
        except (Failure, DeriveError, OSError, EOFError, ValueError):
            served = None
        if served is None:
            return error
        if not served.versions:
            said = f"has no {name} any more"
            hint = f"name another package in the wish, or configure an archive that still has {name} {version}"
        elif version in served.versions:
            said = f"still lists {version}"
            hint = "the mirror is not complete: configure another one, or an archive"
        else:
            newest = served.versions[-1]
            said = f"serves {newest}"
            hint = f"run: derive lock --update {name}, or configure an archive that still has {version}"
        detail = (*error.detail, f"now       {served.where} {said}")
        return UpstreamGone(error.message, where=error.where, detail=detail, hint=hint)

    def _served(self, request: ResolvedDerivation, name: str) -> Served | None:
        match request.builder:
            case "fetch-deb" | "fetch-source":
                return self._debian(request, name)
            case "fetch-wheel":
                return self._wheels(name)
            case _:
                return None

    def _debian(self, request: ResolvedDerivation, name: str) -> Served | None:
        suite, locator = str(request.arguments["suite"]), str(request.arguments["locator"])
        path = f"dists/{suite}/{component_of(locator)}/{_index_of(request)}"
        secure = archive_of(suite) == "debian-security"
        mirrors = self._mirrors.security() if secure else self._mirrors.debian()
        with self._guard:
            if path not in self._indices:
                self._indices[path] = self._first_index(mirrors, path)
            index = self._indices[path]
        return None if index is None else Served(where=suite, versions=_in_order(index.get(name, ())))

    def _first_index(self, mirrors: Iterable[Mirror], path: str) -> Mapping[str, tuple[str, ...]] | None:
        for mirror in mirrors:
            for ending in _ENDINGS:
                try:
                    answer = self._fetcher.client.get(f"{mirror.url}/{path}{ending}", proxy=mirror.proxy)
                    return versions_in(_lines(answer.body, ending))
                except Gone:
                    continue
                except (Failure, lzma.LZMAError, OSError, EOFError, ValueError):
                    break
        return None

    def _wheels(self, name: str) -> Served:
        from packaging.utils import InvalidWheelFilename, parse_wheel_filename

        found = set()
        for listed in self._fetcher.project(normalise(name)):
            try:
                version = parse_wheel_filename(listed.file)[1]
            except InvalidWheelFilename:
                continue
            if not (listed.yanked or version.is_prerelease):
                found.add(version)
        return Served(where="the index", versions=tuple(str(version) for version in sorted(found)))


def component_of(locator: str) -> str:
    """Return the component in which a file of the pool is: ``pool/main/...``, ``pool/updates/main/...``."""
    parts = locator.split("/")[1:]
    return parts[1] if parts[:1] == ["updates"] else parts[0]


def versions_in(lines: Iterable[bytes]) -> Mapping[str, tuple[str, ...]]:
    """Read the versions of every package from the lines of a Packages or Sources index.

    Raises:
        ValueError: it is larger than any index.
    """
    found: dict[str, tuple[str, ...]] = {}
    name, seen = "", 0
    for line in lines:
        seen += len(line)
        if seen > _LARGEST_INDEX:
            msg = "an index is larger than any"
            raise ValueError(msg)
        if line.startswith(b"Package: "):
            name = line[9:].decode("utf-8", "replace").strip()
        elif line.startswith(b"Version: ") and name:
            found[name] = (*found.get(name, ()), line[9:].decode("utf-8", "replace").strip())
    return found


def _lines(data: bytes, ending: str) -> Iterator[bytes]:
    opened = _opened(io.BytesIO(data), ending)
    while line := opened.readline(_LONGEST_LINE):
        yield line


def _opened(file: IO[bytes], ending: str) -> IO[bytes]:
    match ending:
        case ".xz":
            return lzma.open(file)
        case ".gz":
            return cast("IO[bytes]", gzip.open(file))
        case _:
            return file


def _index_of(request: ResolvedDerivation) -> str:
    if request.builder == "fetch-source":
        return "source/Sources"
    architecture = str(request.arguments["architecture"])
    return f"binary-{'amd64' if architecture == 'all' else architecture}/Packages"


def _in_order(versions: Iterable[str]) -> tuple[str, ...]:
    from debian.debian_support import Version

    return tuple(sorted(set(versions), key=Version))
