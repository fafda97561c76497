# SPDX-License-Identifier: Apache-2.0
"""Whether a folder may be given up: it is empty, or holds what was rendered and nothing else.

Edge: reads folders and files. Links are not followed, and folders that were not rendered not gone into.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from derive.canonical import CanonicalError, Json, decode, sha256
from derive.errors import InputErrors, Problem
from derive.infile import NotPlain, read_plain
from derive.render.manifest_names import MANIFEST, MANIFEST_TAG
from derive.words import unreadable

_HINT = "name a folder that does not exist yet"
_LARGEST = 16 << 20
"""Bytes; more than any rendered file has."""
_SHOWN = 10


def require_replaceable(target: Path, said: Path) -> None:
    """Refuse a folder that holds anything but what was rendered, or that cannot be looked through; none is fine.

    ``said`` is what messages call it. An earlier rendering is known by its manifests, which are looked for first.

    Raises:
        InputErrors: naming what would be lost, or what cannot be read.
    """
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_dir():
        raise InputErrors.one("this is no folder", where=str(said), hint=_HINT)
    try:
        with os.scandir(target) as entries:
            if next(entries, None) is None:
                return
        own = _own_files(target)
    except OSError as error:
        where = str(said / os.path.relpath(error.filename or target, target))
        raise InputErrors.one(unreadable(error), where=where, hint=_HINT) from error
    if own is None:
        raise InputErrors.one("this folder holds other things than rendered files", where=str(said), hint=_HINT)
    look = _Look(target=target, own=own)
    look.into("")
    problems = [Problem(where=f"{said}/{path}".rstrip("/"), message=why, hint=_HINT) for path, why in look.closed]
    if look.others:
        first, *others = look.others
        message = "not as it was rendered, and would be deleted"
        problems.append(
            Problem(where=f"{said}/{first}", message=message, detail=tuple(others[: _SHOWN - 1]), hint=_HINT)
        )
    if problems:
        raise InputErrors(problems)


@dataclass(slots=True, kw_only=True)
class _Look:
    """A walk through a folder: what is not ours, and what cannot be read or deleted, with the reason."""

    target: Path
    own: Mapping[str, str]
    others: list[str] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)

    def into(self, within: str) -> bool:
        """Judge all that a folder holds, and say whether any of it is ours."""
        folder = self.target / within
        try:
            with os.scandir(folder) as entries:
                names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except OSError as error:
            self.closed.append((within, unreadable(error)))
            return True
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            self.closed.append((within, "cannot be written in, and so not replaced"))
            return True
        found = [self._judge(f"{within}/{name}" if within else name, is_folder=is_dir) for name, is_dir in names]
        return any(found)

    def _judge(self, path: str, *, is_folder: bool) -> bool:
        known = len(self.others)
        try:
            ours = self._is_expected(path) and self.into(path) if is_folder else self._is_own(path)
        except OSError as error:
            self.closed.append((path, unreadable(error)))
            return True
        # An empty folder is not ours either: each that is made holds a file.
        if not ours and len(self.others) == known:
            self.others.append(path)
        return ours

    def _is_expected(self, folder: str) -> bool:
        return any(PurePosixPath(folder) in PurePosixPath(path).parents for path in self.own)

    def _is_own(self, path: str) -> bool:
        digest = self.own.get(path)
        data = None if digest is None else _plain(self.target / path)
        return data is not None and str(sha256(data)) == digest


def _own_files(target: Path) -> dict[str, str] | None:
    """Return the digest of each file that an earlier rendering left, by its path; None where there is no such one.

    Raises:
        OSError: when a manifest cannot be read.
    """
    data = _plain(target / MANIFEST)
    manifest = _document(data)
    if data is None or manifest is None:
        return None
    own = {MANIFEST: str(sha256(data)), **_digests(manifest.get("files"), "")}
    nodes = manifest.get("nodes")
    for node, said in nodes.items() if isinstance(nodes, Mapping) else ():
        if PurePosixPath(node).name != node or not isinstance(said, Mapping) or (target / node).is_symlink():
            continue
        own |= _digests(said.get("files"), f"{node}/")
        data = _plain(target / node / MANIFEST)
        theirs = _document(data)
        if data is not None and theirs is not None and _is_of(theirs, manifest, said):
            own[f"{node}/{MANIFEST}"] = str(sha256(data))
    return own


def _is_of(theirs: Mapping[str, Json], manifest: Mapping[str, Json], said: Mapping[str, Json]) -> bool:
    """Say whether a node's manifest is one of a launch: it says the same."""
    shared = all(theirs.get(key) == value for key, value in manifest.items() if key not in ("nodes", "files"))
    return shared and all(theirs.get(key) == said.get(key) for key in ("rank", "files"))


def _digests(files: Json, prefix: str) -> dict[str, str]:
    return {f"{prefix}{path}": str(digest) for path, digest in files.items()} if isinstance(files, Mapping) else {}


def _document(data: bytes | None) -> Mapping[str, Json] | None:
    try:
        document = None if data is None else decode(data)
    except CanonicalError:
        return None
    return document if isinstance(document, Mapping) and document.get("derive") == MANIFEST_TAG else None


def _plain(path: Path) -> bytes | None:
    """Return a file's bytes; None where nothing is, or what is there was not rendered."""
    try:
        return read_plain(path, _LARGEST, follow=False)[0]
    except (FileNotFoundError, NotADirectoryError, NotPlain, ValueError):
        return None
