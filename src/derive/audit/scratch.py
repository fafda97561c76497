# SPDX-License-Identifier: Apache-2.0
"""The folder in which an audit works, so that a later run with the same one goes on where an earlier one ended.

Edge: the file system.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from derive.canonical import CanonicalError, Digest, decode, encode
from derive.errors import HostRefuses, InputErrors, expected_got
from derive.store.space import free_bytes
from derive.trees.materialise import remove_folder
from derive.words import size_text

_FILE = "audit.json"
_TAG = "audit-scratch/1"
_PARTS = ("project", "store", "out", "again", "today", "capsule", "engine.log", _FILE)


@dataclass(frozen=True, slots=True)
class Scratch:
    """``project`` is the content of then; ``store`` starts empty; ``out`` and ``again`` have what the engine wrote."""

    root: Path
    release: Digest
    resumed: bool

    @property
    def project(self) -> Path:
        """The release's content, laid out as a project."""
        return self.root / "project"

    @property
    def store(self) -> Path:
        """The store in which the engine of then derives."""
        return self.root / "store"

    @property
    def log(self) -> Path:
        """What the engine of then said."""
        return self.root / "engine.log"

    def fresh(self, name: str) -> Path:
        """Return a folder of this name that is there and empty."""
        folder = self.root / name
        remove_folder(folder)
        folder.mkdir()
        return folder

    def remove(self) -> None:
        """Delete everything in it, and the folder."""
        remove_folder(self.root)


def open_scratch(root: Path, release: Digest) -> Scratch:
    """Make the folder, or go on in one that an earlier audit of the same release left.

    Raises:
        InputErrors: when something else lies there, or it is of another release.
        HostRefuses: when it cannot be made or written.
    """
    root = root.absolute()
    try:
        root.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in root.iterdir()}
        odd = sorted(names - set(_PARTS))
        if odd or (names and _FILE not in names):
            hint = "name a folder that is new or empty: --scratch DIR"
            detail = [f"holds     {', '.join((odd or sorted(names))[:5])}"]
            raise InputErrors.one("not the folder of an audit", where=str(root), detail=detail, hint=hint)
        if names:
            _require_same(root, release)
        else:
            (root / _FILE).write_bytes(encode({"derive": _TAG, "release": str(release)}))
        (root / "store").mkdir(exist_ok=True)
    except NotADirectoryError:
        raise InputErrors.one("this is no folder", where=str(root)) from None
    except OSError as error:
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=str(root)) from error
    return Scratch(root, release, resumed=bool(names))


def _require_same(root: Path, release: Digest) -> None:
    try:
        found = decode((root / _FILE).read_bytes())
    except CanonicalError as error:
        raise InputErrors.one(f"not the folder of an audit: {error}", where=str(root / _FILE)) from error
    got = found.get("release") if isinstance(found, dict) else None
    if got != str(release):
        hint = "name another folder: --scratch DIR"
        detail = expected_got(release, got)
        raise InputErrors.one("the folder of an audit of another release", where=str(root), detail=detail, hint=hint)


def require_space(root: Path, needed: int) -> None:
    """Refuse to begin where a file system has less room than is needed, in bytes; raises HostRefuses."""
    free = free_bytes(root)
    if free < needed:
        raise HostRefuses(
            f"no space for an audit in {root}",
            detail=[f"needed    {size_text(needed)}", f"free      {size_text(free)}"],
            hint="free some, or name a folder on a larger disk: --scratch DIR",
        )
