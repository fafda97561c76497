# SPDX-License-Identifier: Apache-2.0
"""What newer versions of locked packages are served now. Changes nothing.

Edge: apt, the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import assert_never

from derive.canonical import Json
from derive.errors import HostRefuses, Unavailable, UpstreamGone
from derive.lock.debian import private_root, scope_of
from derive.lock.documents import DebEntry, DebianLock, Lock, PythonLock
from derive.lock.records import binaries, sources
from derive.lock.tags import best, ranks
from derive.lock.tools import Tools
from derive.lock.upstreams.entries import UpstreamsLock
from derive.lock.upstreams.wishes import UpstreamsWish
from derive.lock.wishes import DebianWish, PythonWish, Wish
from derive.net.simple import SimpleFile

_Served = dict[tuple[str, str, str], set[str]]
"""(name, architecture or "source", suite) -> versions."""

NEWER_HEADER = ("package", "kind", "locked", "newer", "from", "security")


@dataclass(frozen=True, slots=True, kw_only=True)
class Newer:
    """A newer version of a locked package. ``origin`` is its suite, or ``index``."""

    name: str
    type: str
    locked: str
    newer: str
    origin: str
    security: bool

    def to_json(self) -> dict[str, Json]:
        """Return the row for machine-readable output."""
        return {
            "name": self.name,
            "type": self.type,
            "locked": self.locked,
            "newer": self.newer,
            "origin": self.origin,
            "security": self.security,
        }

    def row(self) -> tuple[str, ...]:
        """Return the row under :data:`NEWER_HEADER`, as text."""
        return (self.name, self.type, self.locked, self.newer, self.origin, "security" if self.security else "")


def find_newer(wish: Wish, lock: Lock, tools: Tools) -> tuple[Newer, ...]:
    """Return newer versions: of a Debian set in its suites, their updates and security; of wheels on the index.

    The wish's own ``exclude-newer`` and pins are not heeded: they are what one may want to move.

    Raises:
        Unavailable: when what serves them cannot be asked.
    """
    match lock:
        case DebianLock():
            assert isinstance(wish, DebianWish)
            return _newer_debian(wish, lock, tools)
        case PythonLock():
            assert isinstance(wish, PythonWish)
            return _newer_python(wish, lock, tools)
        case UpstreamsLock():
            from derive.lock.upstreams.newer import newer_upstreams

            assert isinstance(wish, UpstreamsWish)
            return tuple(
                Newer(name=name, type=type_, locked=locked, newer=newer, origin=origin, security=False)
                for name, type_, locked, newer, origin in newer_upstreams(wish, lock, tools)
            )
        case _:
            assert_never(lock)


def _newer_debian(wish: DebianWish, lock: DebianLock, tools: Tools) -> tuple[Newer, ...]:
    served: _Served = {}
    for suite in dict.fromkeys((*wish.all_suites, f"{wish.suite}-updates", f"{wish.suite}-security")):
        try:
            _collect(wish, lock, suite, served, tools)
        except (Unavailable, HostRefuses) as error:
            if suite in wish.all_suites:
                raise
            tools.progress.note(f"{suite} was not looked at: {error.message}")
    found: dict[tuple[str, ...], Newer] = {}
    for entry in lock.entries:
        architecture = entry.architecture if isinstance(entry, DebEntry) else "source"
        for suite in dict.fromkeys(key[2] for key in served):
            newer = _newest_after(entry.version, served.get((entry.name, architecture, suite), set()))
            if newer is not None:
                found[entry.name, entry.type, entry.version, newer] = Newer(
                    name=entry.name,
                    type=entry.type,
                    locked=entry.version,
                    newer=newer,
                    origin=suite,
                    security=suite.endswith("-security"),
                )
    return tuple(found[key] for key in sorted(found))


def _collect(wish: DebianWish, lock: DebianLock, suite: str, served: _Served, tools: Tools) -> None:
    debs = {entry.name for entry in lock.debs}
    source_names = {entry.name for entry in lock.sources}
    with private_root(wish, tools, [suite]) as root:
        for index in root.indices(scope_of(wish)):
            if index.sources:
                for source in sources(index.pieces(), source_names):
                    served.setdefault((source.name, "source", suite), set()).add(source.version)
            else:
                for record in binaries(index.pieces(), debs):
                    served.setdefault((record.name, record.architecture, suite), set()).add(record.version)


def _newest_after(version: str, candidates: set[str]) -> str | None:
    from debian.debian_support import Version

    newer = [candidate for candidate in candidates if Version(candidate) > Version(version)]
    return max(newer, key=Version, default=None)


def _newer_python(wish: PythonWish, lock: PythonLock, tools: Tools) -> tuple[Newer, ...]:
    projects = sorted({entry.name for entry in lock.wheels})
    with ThreadPoolExecutor(max_workers=8) as pool:
        pages = dict(zip(projects, pool.map(lambda name: _page(name, tools), projects), strict=True))
    found: dict[tuple[str, str, str], Newer] = {}
    for python in wish.pythons:
        for architecture in wish.architectures:
            accepted = ranks(python, architecture, wish.glibc)
            for entry in lock.target(python, architecture):
                newer = newest_wheel(pages[entry.name], entry.version, python, accepted)
                if newer is not None:
                    found[entry.name, entry.version, newer] = Newer(
                        name=entry.name,
                        type=entry.type,
                        locked=entry.version,
                        newer=newer,
                        origin="index",
                        security=False,
                    )
    return tuple(found[key] for key in sorted(found))


def _page(project: str, tools: Tools) -> tuple[SimpleFile, ...]:
    try:
        return tools.fetcher.project(project)
    except UpstreamGone as error:
        tools.progress.note(error.message)
        return ()


def newest_wheel(files: Sequence[SimpleFile], locked: str, python: str, accepted: Mapping[str, int]) -> str | None:
    """Return the newest final version after ``locked`` that has a wheel for a target, or None."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    from packaging.version import Version

    newest = Version(locked)
    for item in files:
        try:
            _, version, _, _ = parse_wheel_filename(item.file)
            admits = SpecifierSet(item.requires_python or "").contains(f"{python}.99")
        except (InvalidWheelFilename, InvalidSpecifier):
            continue
        if item.yanked or version.is_prerelease or version <= newest or not admits:
            continue
        if best([item.file], accepted) is not None:
            newest = version
    return None if newest == Version(locked) else str(newest)
