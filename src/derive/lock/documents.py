# SPDX-License-Identifier: Apache-2.0
"""What stands in ``lock/<set>.lock.json``: which bytes were found, by hash and without any host name.

Core: no IO. Imports no pydantic: every plan reads locks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, TypeVar

from derive.canonical import Digest, Json
from derive.errors import InputErrors, Problem, expected_got
from derive.lock.upstreams.entries import (
    GitEntry,
    HuggingFaceEntry,
    OciEntry,
    UpstreamEntry,
    UpstreamsLock,
    UrlEntry,
    WatchEntry,
    entry_json,
)
from derive.net.places import DebPath, Wanted, WheelFile, archive_of

TAG = "lock/1"

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class DebEntry:
    """A binary package. ``architecture`` may be ``all``; ``suite`` is where it was found; ``size`` in bytes."""

    type: ClassVar[str] = "deb"
    name: str
    version: str
    architecture: str
    file: str
    locator: str
    suite: str
    size: int
    sha256: Digest
    licence: str
    multi_arch: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What entries are sorted by."""
        return (self.name, self.type, self.architecture, self.version, self.file)

    def wanted(self) -> Wanted:
        """Return what a fetch needs to know."""
        return _deb_wanted(self.name, self.version, self.suite, self.locator, self.sha256, self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file of a source package; ``size`` in bytes."""

    file: str
    locator: str
    size: int
    sha256: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEntry:
    """A source package, and the files that its source tree is unpacked from."""

    type: ClassVar[str] = "source"
    name: str
    version: str
    suite: str
    files: tuple[SourceFile, ...]
    licence: str

    @property
    def key(self) -> tuple[str, ...]:
        """What entries are sorted by."""
        return (self.name, self.type, "", self.version, "")

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(item.size for item in self.files)

    def wanted(self) -> tuple[Wanted, ...]:
        """Return what fetches need to know, file by file."""
        return tuple(_deb_wanted(self.name, self.version, self.suite, f.locator, f.sha256, f.size) for f in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelEntry:
    """A wheel; ``name`` is the normalised name of its project; ``size`` in bytes."""

    type: ClassVar[str] = "wheel"
    name: str
    version: str
    file: str
    size: int
    sha256: Digest
    licence: str
    requires_python: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What entries are sorted by."""
        return (self.name, self.type, "", self.version, self.file)

    @property
    def project(self) -> str:
        """The project on an index."""
        return self.name

    def wanted(self) -> Wanted:
        """Return what a fetch needs to know."""
        locator = WheelFile(project=self.name, file=self.file)
        return Wanted(name=self.name, version=self.version, locator=locator, sha256=self.sha256, size=self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianLock:
    """A locked Debian set. ``closures``: closure -> native architecture -> file names of its entries, sorted."""

    kind: ClassVar[str] = "debian"
    set: str
    wish: Digest
    debs: tuple[DebEntry, ...]
    sources: tuple[SourceEntry, ...]
    closures: Mapping[str, Mapping[str, tuple[str, ...]]]

    @property
    def entries(self) -> tuple[DebEntry | SourceEntry, ...]:
        """Every entry, sorted."""
        return tuple(sorted((*self.debs, *self.sources), key=lambda entry: entry.key))

    def closure(self, name: str, architecture: str, *, where: str = "") -> tuple[DebEntry, ...]:
        """Return a closure's packages, sorted; raises InputErrors when the set has no such closure."""
        by_architecture = _lookup(self.closures, name, f"the set {self.set} has no closure {name}", where)
        message = f"the closure {name} of the set {self.set} is not for {architecture}"
        files = set(_lookup(by_architecture, architecture, message, where))
        return tuple(entry for entry in self.debs if entry.file in files)

    def source(self, name: str, *, where: str = "") -> SourceEntry:
        """Return a source package; raises InputErrors when the set has none of that name."""
        return _lookup({e.name: e for e in self.sources}, name, f"the set {self.set} has no source {name}", where)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonLock:
    """A locked set of wheels. ``targets``: target (``cp313-amd64``) -> file names of its entries, sorted."""

    kind: ClassVar[str] = "python"
    set: str
    wish: Digest
    wheels: tuple[WheelEntry, ...]
    targets: Mapping[str, tuple[str, ...]]

    @property
    def entries(self) -> tuple[WheelEntry, ...]:
        """Every entry, sorted."""
        return self.wheels

    def target(self, python: str, architecture: str, *, where: str = "") -> tuple[WheelEntry, ...]:
        """Return the wheels for one Python (``3.13``) and architecture; raises InputErrors when there is none."""
        message = f"the set {self.set} is not for Python {python} on {architecture}"
        files = set(_lookup(self.targets, target_name(python, architecture), message, where))
        return tuple(entry for entry in self.wheels if entry.file in files)

    def wheel(self, name: str, python: str, architecture: str, *, where: str = "") -> WheelEntry:
        """Return one project's wheel for a target; raises InputErrors when the set has none."""
        found = {entry.name: entry for entry in self.target(python, architecture, where=where)}
        return _lookup(found, name, f"the set {self.set} has no {name} for Python {python} on {architecture}", where)


Lock: TypeAlias = DebianLock | PythonLock | UpstreamsLock
LockEntry: TypeAlias = DebEntry | SourceEntry | WheelEntry | UpstreamEntry


def target_name(python: str, architecture: str) -> str:
    """Write a target as it stands in locks: ``3.13`` and ``amd64`` give ``cp313-amd64``."""
    return f"cp{python.replace('.', '')}-{architecture}"


def render_lock(lock: Lock) -> bytes:
    """Return the lock file's bytes: keys and entries sorted, one key a line."""
    document: dict[str, Json] = {
        "derive": TAG,
        "kind": lock.kind,
        "set": lock.set,
        "wish": str(lock.wish),
        "entries": [_entry(entry) for entry in lock.entries],
    }
    match lock:
        case DebianLock(closures=closures):
            document["closures"] = {name: dict(closure) for name, closure in closures.items()}
        case PythonLock(targets=targets):
            document["targets"] = dict(targets)
        case UpstreamsLock():
            pass
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode("utf-8")


def check_against(lock: Lock, wish: Digest, *, wish_file: str) -> list[Problem]:
    """Say whether a lock was made from another wish than the one that stands in the file now."""
    if lock.wish == wish:
        return []
    return [
        Problem(
            where=wish_file,
            message="changed since it was locked",
            detail=expected_got(lock.wish, wish),
            hint=f"run: derive lock {lock.set}",
        )
    ]


def _entry(entry: LockEntry) -> Json:
    if isinstance(entry, GitEntry | UrlEntry | OciEntry | HuggingFaceEntry | WatchEntry):
        return entry_json(entry)
    found: dict[str, Json] = {}
    match entry:
        case DebEntry():
            found |= {"multi-arch": entry.multi_arch} if entry.multi_arch else {}
            found |= {"architecture": entry.architecture, "suite": entry.suite, "locator": entry.locator}
        case WheelEntry():
            found |= {"requires-python": entry.requires_python} if entry.requires_python else {}
        case SourceEntry():
            files: list[Json] = [
                {"file": f.file, "locator": f.locator, "size": f.size, "sha256": f.sha256.hex} for f in entry.files
            ]
            found |= {"suite": entry.suite, "files": files}
    if not isinstance(entry, SourceEntry):
        found |= {"file": entry.file, "size": entry.size, "sha256": entry.sha256.hex}
    return {"type": entry.type, "name": entry.name, "version": entry.version, "licence": entry.licence, **found}


def _deb_wanted(name: str, version: str, suite: str, locator: str, sha256: Digest, size: int) -> Wanted:
    path = DebPath(archive=archive_of(suite), path=locator)
    return Wanted(name=name, version=version, locator=path, sha256=sha256, size=size)


def _lookup(table: Mapping[str, V], key: str, message: str, where: str) -> V:
    try:
        return table[key]
    except KeyError:
        known = ", ".join(sorted(table)[:12]) or "none"
        raise InputErrors.one(message, where=where, detail=[f"known     {known}"]) from None
