# SPDX-License-Identifier: Apache-2.0
"""Locking a set: its wish and its lock are read, resolved, compared, and the new lock written whole.

Edge: the project's ``lock/`` folder; the resolvers do the rest.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, assert_never

from derive.errors import InputErrors, Problem
from derive.lock.debian import resolve_debian
from derive.lock.documents import DebianLock, Lock, PythonLock, check_against, render_lock
from derive.lock.keep import Keep, KeepAll, MoveNames
from derive.lock.outdated import Newer, find_newer
from derive.lock.python import resolve_python
from derive.lock.read import parse_lock, require_lock
from derive.lock.table import Move, moves
from derive.lock.tools import Tools
from derive.lock.upstreams.entries import UpstreamsLock
from derive.lock.upstreams.wishes import UpstreamsWish
from derive.lock.wishes import DebianWish, PythonWish, parse_wish, require_wish, wish_digest
from derive.net.names import normalise

if TYPE_CHECKING:
    from derive.lock.upstreams.watch import Watched

L = TypeVar("L", DebianLock, PythonLock)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFiles:
    """A set as it lies in a project. File names are relative to the project, for messages; ``locked`` may be absent."""

    name: str
    wish_file: str
    lock_file: str
    wish: bytes
    locked: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A resolved set: the lock, its file's bytes, and what moved against the lock before."""

    lock: Lock
    data: bytes
    moves: tuple[Move, ...]


WATCH = "watch"
"""No set is called so: it is what asks upstreams whether they moved."""


def set_names(root: Path) -> tuple[str, ...]:
    """Return the names of a project's sets, sorted."""
    return tuple(sorted(path.stem for path in (root / "lock").glob("*.toml")))


def upstream_sets(root: Path) -> list[SetFiles]:
    """Return the sets of upstreams among a project's; raises InputErrors for wishes that cannot be read."""
    found = [read_set(root, name) for name in set_names(root)]
    return [one for one in found if isinstance(require_wish(one.wish, one.wish_file), UpstreamsWish)]


def read_set(root: Path, name: str) -> SetFiles:
    """Read a set of the project at ``root``; raises InputErrors when there is no such wish."""
    wish_file, lock_file = f"lock/{name}.toml", f"lock/{name}.lock.json"
    if name == WATCH:
        raise InputErrors.one("no set may be called watch", where=wish_file, hint="give its files another name")
    try:
        wish = (root / wish_file).read_bytes()
    except FileNotFoundError:
        known = ", ".join(set_names(root)) or "none"
        raise InputErrors.one(f"no such set: {name}", where=wish_file, detail=[f"known     {known}"]) from None
    try:
        locked = (root / lock_file).read_bytes()
    except FileNotFoundError:
        locked = None
    return SetFiles(name=name, wish_file=wish_file, lock_file=lock_file, wish=wish, locked=locked)


def write_lock(root: Path, files: SetFiles, data: bytes) -> bool:
    """Write a lock file whole; return whether anything changed."""
    if files.locked == data:
        return False
    target = root / files.lock_file
    fd, staged = tempfile.mkstemp(dir=target.parent, prefix=f".{files.name}.")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(staged).chmod(0o644)
        Path(staged).replace(target)
    except BaseException:
        Path(staged).unlink(missing_ok=True)
        raise
    return True


def lock_set(files: SetFiles, keep: Keep, tools: Tools) -> Locked:
    """Resolve a set. Nothing is asked of any mirror when the wish is the locked one and nothing is to move.

    Raises:
        InputErrors: the wish or the lock is wrong, a name to move is not locked, or there is no solution.
        DeriveError: what the resolvers raise.
    """
    wish = require_wish(files.wish, files.wish_file)
    old = None if files.locked is None else require_lock(files.locked, files.lock_file)
    keep = _checked(keep, old, files)
    if old is not None and isinstance(keep, KeepAll) and old.wish == wish_digest(wish):
        return Locked(lock=old, data=render_lock(old), moves=())
    match wish:
        case DebianWish():
            before = old if isinstance(old, DebianLock) else None
            lock: Lock = resolve_debian(
                wish, name=files.name, where=files.wish_file, locked=before, keep=keep, tools=tools
            )
        case PythonWish():
            wheels = old if isinstance(old, PythonLock) else None
            lock = resolve_python(wish, name=files.name, where=files.wish_file, locked=wheels, keep=keep, tools=tools)
        case UpstreamsWish():
            from derive.lock.upstreams.resolve import resolve_upstreams

            lock = resolve_upstreams(
                wish,
                digest=wish_digest(wish),
                name=files.name,
                where=files.wish_file,
                locked=old if isinstance(old, UpstreamsLock) else None,
                keep=keep,
                tools=tools,
            )
        case _:
            assert_never(wish)
    data = render_lock(lock)
    require_lock(data, files.lock_file)
    return Locked(lock=lock, data=data, moves=moves(old, lock))


def check_set(files: SetFiles) -> list[Problem]:
    """Say everything that is wrong with a wish and its lock, asking nothing of any mirror."""
    wish, problems = parse_wish(files.wish, files.wish_file)
    if files.locked is None:
        return [*problems, _missing(files)]
    lock, more = parse_lock(files.locked, files.lock_file)
    problems = [*problems, *more]
    if lock is not None and render_lock(lock) != files.locked:
        problems.append(
            Problem(
                where=files.lock_file,
                message="not laid out as derive lock writes it",
                hint=f"run: derive lock {files.name}",
            )
        )
    if wish is not None and lock is not None:
        problems += check_against(lock, wish_digest(wish), wish_file=files.wish_file)
    return problems


def outdated(files: SetFiles, tools: Tools) -> tuple[Newer, ...]:
    """Return what newer versions are served of what is locked; changes nothing.

    Raises:
        InputErrors: the wish or the lock is wrong or absent, or they do not belong together.
        DeriveError: when what serves them cannot be asked.
    """
    problems = check_set(files)
    if problems or files.locked is None:
        raise InputErrors(problems)
    return find_newer(require_wish(files.wish, files.wish_file), require_lock(files.locked, files.lock_file), tools)


def watched(files: SetFiles, tools: Tools) -> tuple[tuple[Watched, ...], bytes]:
    """Return what moved at a set's upstreams, and the lock in which all of the watch list counts as seen.

    Raises:
        InputErrors: the set is no set of upstreams, or its wish or lock is wrong.
    """
    from derive.lock.upstreams.watch import seen_now, watch

    wish = require_wish(files.wish, files.wish_file)
    if not isinstance(wish, UpstreamsWish):
        raise InputErrors.one("not a set of upstreams: nothing of it is watched", where=f"{files.wish_file}: kind")
    if files.locked is None:
        raise InputErrors([_missing(files)])
    lock = require_lock(files.locked, files.lock_file)
    if not isinstance(lock, UpstreamsLock):
        raise InputErrors([_missing(files)])
    found = watch(wish, lock, tools)
    return found, render_lock(seen_now(lock, found))


def _missing(files: SetFiles) -> Problem:
    return Problem(where=files.lock_file, message="not locked yet", hint=f"run: derive lock {files.name}")


def _checked(keep: Keep, old: Lock | None, files: SetFiles) -> Keep:
    if not isinstance(keep, MoveNames):
        return keep
    if old is None:
        raise InputErrors([_missing(files)])
    names = frozenset(map(normalise, keep.names)) if isinstance(old, PythonLock) else keep.names
    known = {entry.name for entry in old.entries}
    unknown = [
        Problem(where=files.lock_file, message=f"{name} is not locked in the set {files.name}")
        for name in names
        if name not in known
    ]
    if unknown:
        raise InputErrors(unknown)
    return MoveNames(names)
