# SPDX-License-Identifier: Apache-2.0
"""A wheel laid out below one prefix, as the PyPA's binary distribution format says. Only places change, not contents.

Core: no IO of its own; it reads and writes through the store that it is given.

Written anew are the first lines of scripts that ask for it, the commands of entry points, and INSTALLER. RECORD is not
installed: it is written last, by its own step, when patches and byte code are in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from derive.archives.names import refused
from derive.canonical import escape
from derive.errors import InputErrors, Problem
from derive.store.protocol import Store
from derive.trees.listing import File, Listing, ListingError
from derive.trees.pack import Member, NewFile, add_members
from derive.wheels.entry_points import parse_entry_points, script_text
from derive.wheels.metadata import (
    CoreMetadata,
    check_folder_name,
    dist_info,
    parse_metadata,
    parse_wheel_file,
    small_file,
)
from derive.wheels.record import SIGNATURES, parse_record, verify_record

INSTALLER = b"derive\n"
_NOT_INSTALLED = frozenset(
    ("RECORD", *SIGNATURES, "INSTALLER", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json")
)
_PYTHON_LINE = b"#!python"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """Where the parts of a wheel go. ``python`` is X.Y, ``prefix`` a path below the root, ``interpreter`` absolute."""

    python: str
    prefix: bytes = b"usr/local"
    interpreter: str = "/usr/bin/python3"

    @property
    def site(self) -> bytes:
        """The folder on Python's path: pure and native packages alike."""
        return self.prefix + b"/lib/python" + self.python.encode() + b"/dist-packages"

    def folder(self, key: str, project: str) -> bytes | None:
        """Return where a wheel's ``.data/<key>`` goes, or None when the specification has no such key."""
        match key:
            case "purelib" | "platlib":
                return self.site
            case "scripts":
                return self.prefix + b"/bin"
            case "data":
                return self.prefix
            case "headers":
                return self.prefix + b"/include/python" + self.python.encode() + b"/" + project.encode()
            case _:
                return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The located tree, and the lines of the log."""

    listing: Listing
    log: tuple[str, ...]


def install_wheel(
    store: Store,
    wheel: Listing,
    *,
    name: str,
    scheme: Scheme,
    requested: bool = False,
    patched: Listing | None = None,
    drop: Iterable[str] = (),
) -> Installed:
    """Install an unpacked wheel; ``name`` is what errors call it, ``requested`` writes the REQUESTED mark.

    ``patched`` is the same wheel with a series applied: RECORD speaks of the wheel as it came, and this is installed.
    ``drop`` are patterns of escaped paths in the wheel that are not installed; ``*`` spans slashes.

    Raises:
        InputErrors: when its RECORD does not match its files, when two of its files go to one place, when its format,
            names or entry points are not as the specification says, when a patch changed RECORD.
        Corrupt: when its metadata cannot be parsed.
    """
    info = dist_info(name, wheel)
    record = info + b"/RECORD"
    verify_record(name, store, wheel, info, parse_record(name, record, small_file(name, store, wheel, record)))
    if patched is not None:
        if dist_info(name, patched) != info or patched.get(record) != wheel[record]:
            raise refused(name, record, "changed by a patch, and it is written anew when the wheel is installed")
        wheel = patched
    metadata = parse_metadata(name, info, small_file(name, store, wheel, info + b"/METADATA"))
    if not _NAME.fullmatch(metadata.name):
        raise refused(name, info, f"no name of a project: {metadata.name!r}")
    check_folder_name(name, info, metadata)
    version = parse_wheel_file(name, info, small_file(name, store, wheel, info + b"/WHEEL")).version
    log = [f"format {version[0]}.{version[1]}, newer than 1.0"] if version > (1, 0) else []
    dropped = _dropped(name, wheel, info, drop)
    placed = _Places(name)
    for path, file in wheel.files():
        if _is_byte_code(path) or (path.startswith(info + b"/") and _is_dropped(path[len(info) + 1 :])):
            log += [f"not installed: {escape(path)}"] if path != record else []
            continue
        if path in dropped:
            log.append(f"dropped: {escape(path)}")
            continue
        target, script = _target(name, path, metadata, scheme)
        placed.add(target, _script(store, file, scheme) if script else file, path)
    for target, member, source in _generated(store, wheel, info, name, scheme, requested=requested):
        placed.add(target, member, source)
    try:
        return Installed(listing=add_members(store, placed.members()), log=tuple(log))
    except ListingError as error:
        raise refused(name, None, str(error)) from error


def _dropped(name: str, wheel: Listing, info: bytes, patterns: Iterable[str]) -> frozenset[bytes]:
    """Return the files that patterns name, metadata apart; raises InputErrors on each pattern that names none."""
    paths = [path for path, _ in wheel.files() if not path.startswith(info + b"/")]
    found = {pattern: [path for path in paths if fnmatchcase(escape(path), pattern)] for pattern in patterns}
    idle = [pattern for pattern, some in found.items() if not some]
    if idle:
        hint = "take it out of drop; metadata is never dropped"
        message = "drop: no file of this wheel fits"
        raise InputErrors([Problem(where=f"{name}: {pattern}", message=message, hint=hint) for pattern in idle])
    return frozenset(path for some in found.values() for path in some)


class _Places:
    """Where each file goes; two that go to one place are refused when all are known."""

    def __init__(self, archive: str) -> None:
        self._archive = archive
        self._members: dict[bytes, Member] = {}
        self._sources: dict[bytes, bytes] = {}
        self._problems: list[Problem] = []

    def add(self, target: bytes, member: Member, source: bytes) -> None:
        if target in self._members:
            detail = tuple(f"from  {escape(path)}" for path in (self._sources[target], source))
            where = f"{self._archive}: /{escape(target)}"
            self._problems.append(Problem(where=where, message="two files of a wheel go here", detail=detail))
        self._members[target] = member
        self._sources[target] = source

    def members(self) -> Iterable[tuple[bytes, Member]]:
        if self._problems:
            raise InputErrors(self._problems)
        return self._members.items()


def _target(name: str, path: bytes, metadata: CoreMetadata, scheme: Scheme) -> tuple[bytes, bool]:
    """Return where a file goes, and whether it is a script."""
    top, _, rest = path.partition(b"/")
    if not rest or not top.lower().endswith(b".data"):
        return scheme.site + b"/" + path, False
    check_folder_name(name, top, metadata)
    key, _, inner = rest.partition(b"/")
    folder = scheme.folder(key.decode("latin-1"), metadata.name)
    if folder is None or not inner:
        raise refused(name, path, "a file of a .data folder that goes to no known place")
    return folder + b"/" + inner, key == b"scripts"


def _is_byte_code(path: bytes) -> bool:
    """Byte code that a wheel ships would hide behind the one that is compiled from its sources."""
    return path.endswith(b".pyc") and b"__pycache__" in path.split(b"/")


def _is_dropped(inner: bytes) -> bool:
    return inner.decode("latin-1") in _NOT_INSTALLED


def _script(store: Store, file: File, scheme: Scheme) -> Member:
    """Return a script as installed: always executable, its first line rewritten when it is ``#!python``."""
    if not next(iter(store.read(file)), b"").startswith(_PYTHON_LINE):
        return File(executable=True, size=file.size, sha256=file.sha256, at=file.at)
    return NewFile(executable=True, chunks=_rewritten(store.read(file), scheme.interpreter))


def _rewritten(pieces: Iterator[bytes], interpreter: str) -> Iterator[bytes]:
    yield b"#!" + interpreter.encode() + b"\n"
    for piece in pieces:
        _, end, rest = piece.partition(b"\n")
        if end:
            yield rest
            break
    yield from pieces


def _generated(
    store: Store, wheel: Listing, info: bytes, name: str, scheme: Scheme, *, requested: bool
) -> Iterator[tuple[bytes, Member, bytes]]:
    """Yield what the wheel does not hold: (where it goes, contents, what it is made from)."""
    folder = scheme.site + b"/" + info
    yield folder + b"/INSTALLER", NewFile(executable=False, chunks=[INSTALLER]), b"INSTALLER"
    if requested:
        yield folder + b"/REQUESTED", NewFile(executable=False, chunks=[]), b"REQUESTED"
    source = info + b"/entry_points.txt"
    if source not in wheel:
        return
    for command in parse_entry_points(name, source, small_file(name, store, wheel, source)):
        text = script_text(command, scheme.interpreter)
        target = scheme.prefix + b"/bin/" + command.name.encode()
        yield target, NewFile(executable=True, chunks=[text]), source
