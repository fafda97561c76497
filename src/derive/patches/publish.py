# SPDX-License-Identifier: Apache-2.0
"""A series in its folder of the project: read with the digest of all that it is, written whole.

Edge: the file system.

Several files change together, and no rename moves them all at once. They are staged under hidden names, which are no
content; a journal says what is to move where; then they move. Killed before the journal stands, nothing has changed;
killed after it, whoever comes next moves the rest.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import Digest, digest_document, sha256
from derive.errors import InputErrors, Problem
from derive.patches.load import LoadedSeries, series_of
from derive.patches.series import SUFFIX
from derive.store.blobs import sync_folder

JOURNAL = ".derive-journal"
_STAGED = ".new"
_LINK = "a link: content files are ordinary files"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFiles:
    """The files of a series as they lie in the project, by name, and what they say."""

    upstream: str
    folder: Path
    files: Mapping[str, bytes]
    loaded: LoadedSeries

    @property
    def digest(self) -> Digest:
        """The digest of every byte of the series."""
        return files_digest(self.files)

    @property
    def where(self) -> str:
        """How messages call the folder."""
        return f"patches/{self.upstream}"


def files_digest(files: Mapping[str, bytes]) -> Digest:
    """Return the digest of a series' files."""
    return digest_document(
        {"derive": "series-files/1", "files": {name: sha256(data).hex for name, data in files.items()}}
    )


def read_series(root: Path, upstream: str) -> SeriesFiles:
    """Read the series of an upstream from a project's folder, after ending what a killed process began there.

    Raises:
        InputErrors: when there is none, or with everything wrong in it.
    """
    folder = root / "patches" / upstream
    names = sorted(path.parent.name for path in (root / "patches").glob("*/series"))
    if "/" in upstream or upstream in {"", ".", ".."} or not folder.is_dir():
        there = f"expected  one of {', '.join(names)}" if names else "there is none in this project"
        hint = "a series begins with a file patches/<upstream>/series that has a line '# licence: <SPDX expression>'"
        raise InputErrors.one(f"no series of patches is called {upstream!r}", detail=[there], hint=hint)
    end_unfinished(folder)
    paths = [
        path
        for path in sorted(folder.iterdir())
        if path.name == "series" or (path.name.endswith(SUFFIX) and not path.name.startswith("."))
    ]
    links = [path for path in (folder.parent, folder, *paths) if path.is_symlink()]
    if links:
        places = [path.relative_to(root).as_posix() for path in links]
        raise InputErrors([Problem(where=place, message=_LINK) for place in places])
    files = {path.name: path.read_bytes() for path in paths if path.is_file()}
    return SeriesFiles(upstream=upstream, folder=folder, files=files, loaded=series_of(files, f"patches/{upstream}"))


def end_unfinished(folder: Path) -> None:
    """End the change of a series that a killed process had begun to move into place."""
    if (folder / JOURNAL).exists():
        with _locked(folder):
            _finish(folder)


def publish(before: SeriesFiles, files: Mapping[str, bytes]) -> SeriesFiles:
    """Make these the files of the series, and return it as it is now.

    Raises:
        InputErrors: when they are no series, or the folder is no longer as it was read; nothing has changed.
    """
    loaded = series_of(files, before.where)
    with _locked(before.folder):
        _finish(before.folder)
        if read_series(before.folder.parent.parent, before.upstream).digest != before.digest:
            hint = "run the same command again"
            raise InputErrors.one("the series changed while it was worked on", where=before.where, hint=hint)
        written = {name: data for name, data in files.items() if before.files.get(name) != data}
        removed = sorted(before.files.keys() - files.keys())
        if written or removed:
            _stage(before.folder, written)
            _write_journal(
                before.folder, {"write": sorted(written, key=lambda name: (name == "series", name)), "remove": removed}
            )
            _finish(before.folder)
    return SeriesFiles(upstream=before.upstream, folder=before.folder, files=dict(files), loaded=loaded)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _staged(folder: Path, name: str) -> Path:
    return folder / f".{name}{_STAGED}"


def _stage(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        _write(_staged(folder, name), data)
        if (folder / name).exists():
            _staged(folder, name).chmod((folder / name).stat().st_mode & 0o777)


def _write_journal(folder: Path, moves: Mapping[str, list[str]]) -> None:
    staged = folder / f"{JOURNAL}{_STAGED}"
    _write(staged, json.dumps(moves, sort_keys=True).encode())
    sync_folder(folder)
    staged.replace(folder / JOURNAL)
    sync_folder(folder)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _finish(folder: Path) -> None:
    """Do what a journal says, or sweep what was staged without one."""
    journal = folder / JOURNAL
    if journal.exists():
        moves = json.loads(journal.read_bytes())
        for name in moves["write"]:
            if _staged(folder, name).exists():
                _staged(folder, name).replace(folder / name)
        for name in moves["remove"]:
            (folder / name).unlink(missing_ok=True)
        sync_folder(folder)
        journal.unlink()
    for path in (*folder.glob(f".*{SUFFIX}{_STAGED}"), _staged(folder, "series"), folder / f"{JOURNAL}{_STAGED}"):
        path.unlink(missing_ok=True)
