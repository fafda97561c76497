# SPDX-License-Identifier: Apache-2.0
"""Reading ``lock/<set>.lock.json`` strictly: unknown keys, disorder and host names are refused, all at once.

Core: no IO. Imports no pydantic: every plan reads locks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from derive.canonical import CanonicalError, Digest, decode
from derive.errors import InputErrors, Problem, expected_got
from derive.lock.documents import TAG, DebEntry, DebianLock, Lock, PythonLock, SourceEntry, SourceFile, WheelEntry
from derive.lock.json_table import Table
from derive.lock.tags import fits, parse_target
from derive.net.names import normalise

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")
_DEB_VERSION = re.compile(r"[A-Za-z0-9.+:~-]+")
_WHEEL_VERSION = re.compile(r"[A-Za-z0-9.+!_-]+")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~_!-]*")
_POOL = re.compile(r"pool(/[A-Za-z0-9][A-Za-z0-9.+~_-]*)+")
_SUITE = re.compile(r"[a-z][a-z0-9-]*")
_LICENCE = re.compile(r"[^\x00-\x1f\x7f]{1,1000}")
_ARCHITECTURE = re.compile(r"amd64|arm64|all")
_MULTI_ARCH = re.compile(r"same|foreign|allowed")
_ANY = re.compile(r"[^\x00-\x1f\x7f]+")


def parse_lock(data: bytes, file: str) -> tuple[Lock | None, list[Problem]]:
    """Read a lock file, or say everything that is wrong with it. ``file`` is named in the problems."""
    try:
        document = decode(data)
    except CanonicalError as error:
        return None, [Problem(where=file, message=f"not a lock file: {error}", hint=_again(file))]
    if not isinstance(document, Mapping):
        return None, [Problem(where=file, message="not a lock file: no table at its top", hint=_again(file))]
    top = Table(document, file, "", [])
    if document.get("derive") != TAG:
        detail = expected_got(TAG, document.get("derive"))
        return None, [Problem(where=f"{file}: derive", message="not a lock of this format", detail=detail)]
    lock = _read(top)
    return (None, top.problems) if top.problems else (lock, [])


def require_lock(data: bytes, file: str) -> Lock:
    """Read a lock file; raises InputErrors with everything that is wrong with it."""
    lock, problems = parse_lock(data, file)
    if lock is None or problems:
        raise InputErrors(problems)
    return lock


def _again(file: str) -> str:
    name = file.rpartition("/")[2].removesuffix(".lock.json")
    return f"restore it from version control, or remove it and run: derive lock {name}"


def _read(top: Table) -> Lock | None:
    top.take("derive")
    kind = top.text("kind", re.compile("debian|python|upstreams"))
    name = top.text("set", _SUITE)
    wish = top.digest("wish", tagged=True)
    expected = top.file.rpartition("/")[2].removesuffix(".lock.json")
    if name and name != expected:
        top.problem("set", "another set than the file's name says", expected_got(expected, name))
    if not kind:
        return None
    match kind:
        case "debian":
            lock: Lock = _debian(top, name, wish)
        case "python":
            lock = _python(top, name, wish)
        case _:
            from derive.lock.upstreams.read import read_upstreams

            lock = read_upstreams(top, name, wish)
    top.end()
    return lock


def _debian(top: Table, name: str, wish: Digest) -> DebianLock:
    entries: list[DebEntry | SourceEntry] = []
    for table in top.tables("entries"):
        match table.take("type"):
            case "deb":
                entries.append(_deb(table))
            case "source":
                entries.append(_source(table))
            case other:
                table.problem("type", "no such type in a Debian set", [f"got       {other!r}"])
    debs = tuple(entry for entry in entries if isinstance(entry, DebEntry))
    closures = _closures(top.table("closures"), {entry.file for entry in debs})
    used = {file for closure in closures.values() for files in closure.values() for file in files}
    _consistent(top, [entry.key for entry in entries], [entry.file for entry in debs], used)
    sources = tuple(entry for entry in entries if isinstance(entry, SourceEntry))
    return DebianLock(set=name, wish=wish, debs=debs, sources=sources, closures=closures)


def _python(top: Table, name: str, wish: Digest) -> PythonLock:
    wheels = tuple(_wheel(table) for table in top.tables("entries"))
    targets = _targets(top.table("targets"), {entry.file for entry in wheels})
    used = {file for files in targets.values() for file in files}
    _consistent(top, [entry.key for entry in wheels], [entry.file for entry in wheels], used)
    return PythonLock(set=name, wish=wish, wheels=wheels, targets=targets)


def _deb(table: Table) -> DebEntry:
    entry = DebEntry(
        name=table.text("name", _NAME),
        version=table.text("version", _DEB_VERSION),
        architecture=table.text("architecture", _ARCHITECTURE),
        file=table.text("file", _FILE),
        locator=table.text("locator", _POOL),
        suite=table.text("suite", _SUITE),
        size=table.integer("size"),
        sha256=table.digest("sha256"),
        licence=table.text("licence", _LICENCE),
        multi_arch=table.optional("multi-arch", _MULTI_ARCH),
    )
    _same_file(table, entry.file, entry.locator)
    table.end()
    return entry


def _source(table: Table) -> SourceEntry:
    files = []
    for inner in table.tables("files"):
        found = SourceFile(
            file=inner.text("file", _FILE),
            locator=inner.text("locator", _POOL),
            size=inner.integer("size"),
            sha256=inner.digest("sha256"),
        )
        _same_file(inner, found.file, found.locator)
        inner.end()
        files.append(found)
    names = [item.file for item in files]
    if names != sorted(set(names)):
        table.problem("files", "not sorted, or a file twice")
    entry = SourceEntry(
        name=table.text("name", _NAME),
        version=table.text("version", _DEB_VERSION),
        suite=table.text("suite", _SUITE),
        files=tuple(files),
        licence=table.text("licence", _LICENCE),
    )
    table.end()
    return entry


def _wheel(table: Table) -> WheelEntry:
    if table.text("type", re.compile("wheel")) == "":
        table.problem("type", "no such type in a Python set")
    entry = WheelEntry(
        name=table.text("name", _NAME),
        version=table.text("version", _WHEEL_VERSION),
        file=table.text("file", _FILE),
        size=table.integer("size"),
        sha256=table.digest("sha256"),
        licence=table.text("licence", _LICENCE),
        requires_python=table.optional("requires-python", _ANY),
    )
    if entry.file and (not entry.file.endswith(".whl") or normalise(entry.file.partition("-")[0]) != entry.name):
        table.problem("file", f"not a wheel of {entry.name}", [f"got       {entry.file!r}"])
    table.end()
    return entry


def _same_file(table: Table, file: str, locator: str) -> None:
    if file and locator and locator.rpartition("/")[2] != file:
        table.problem("locator", "does not end in the file's name", expected_got(file, locator.rpartition("/")[2]))


def _closures(table: Table, debs: AbstractSet[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    closures: dict[str, dict[str, tuple[str, ...]]] = {}
    for name in table.names():
        inner = table.table(name)
        closures[name] = {}
        for architecture in inner.names():
            if not re.fullmatch("amd64|arm64", architecture):
                inner.problem(architecture, "no such architecture")
            closures[name][architecture] = _files(inner, architecture, debs)
    return closures


def _targets(table: Table, wheels: AbstractSet[str]) -> dict[str, tuple[str, ...]]:
    targets: dict[str, tuple[str, ...]] = {}
    for name in table.names():
        target = parse_target(name)
        files = _files(table, name, wheels)
        if target is None:
            table.problem(name, "not a target, as in cp313-amd64")
            continue
        for index, file in enumerate(files):
            if file in wheels and not fits(file, *target):
                table.problem(f"{name}[{index}]", f"a wheel for another platform than {name}", [f"got       {file!r}"])
        targets[name] = files
    return targets


def _files(table: Table, key: str, entries: AbstractSet[str]) -> tuple[str, ...]:
    value = table.take(key)
    if not isinstance(value, list):
        table.problem(key, "not an array of file names")
        return ()
    files = [item for item in value if isinstance(item, str)]
    if len(files) != len(value) or files != sorted(set(files)):
        table.problem(key, "not sorted, or a file twice")
    for index, file in enumerate(files):
        if file not in entries:
            table.problem(f"{key}[{index}]", "no entry has this file", [f"got       {file!r}"])
    return tuple(files)


def _consistent(top: Table, keys: Sequence[tuple[str, ...]], files: Sequence[str], used: AbstractSet[str]) -> None:
    """Check what no entry shows alone: order, no file twice, none unused."""
    for index in range(1, len(keys)):
        if keys[index] <= keys[index - 1]:
            top.problem(
                f"entries[{index}]", "out of order, or the same entry twice", [f"after     {keys[index - 1][0]}"]
            )
            break
    for file, count in Counter(files).items():
        if count > 1:
            top.problem("entries", f"the same file twice: {file}")
        if file and file not in used:
            top.problem("entries", f"nothing uses {file}")
