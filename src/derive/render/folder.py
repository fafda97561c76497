# SPDX-License-Identifier: Apache-2.0
"""Rendered files on disk: a folder that is there whole or not at all, and takes the place of an earlier one at once.

Edge: the file system.

Whole whenever a process is killed. After a loss of power files may be cut short, as nothing is waited for: they can be
rendered again, and every manifest says what they hold.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from derive.canonical import CanonicalError, decode, sha256
from derive.errors import HostRefuses, InputErrors
from derive.render.manifest_names import MANIFEST, MANIFEST_TAG

_HINT = "name a folder that does not exist yet"
_AT_CWD = -100
_EXCHANGE = 2


def write_folder(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a folder that is new, empty, or was written by this function and not changed since.

    An earlier one is known by its manifests. A file that begins with ``#!`` can be run.

    Raises:
        InputErrors: when the folder holds anything else, or lies in none.
        HostRefuses: when it cannot be written.
    """
    target = Path(os.path.realpath(folder))
    _require_replaceable(target, folder)
    try:
        with _staged(target) as staged:
            for path, data in files.items():
                _write(staged / PurePosixPath(path), data)
            # Again: it was written since, and what lies there now would be deleted.
            _require_replaceable(target, folder)
            _put(staged, target)
    except OSError as error:
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=str(folder)) from error


def _require_replaceable(target: Path, said: Path) -> None:
    if not target.parent.is_dir():
        raise InputErrors.one(f"the folder {target.parent} does not exist", where=str(said))
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise InputErrors.one("this is no folder", where=str(said), hint=_HINT)
    found = sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if not path.is_dir())
    if not found:
        return
    own = _own_files(target)
    if own is None:
        raise InputErrors.one("this folder holds other things than rendered files", where=str(said), hint=_HINT)
    others = [path for path in found if not _is_own(target / path, own.get(path))]
    if others:
        message = "not as it was rendered, and would be deleted"
        raise InputErrors.one(message, where=f"{said}/{others[0]}", detail=others[1:10], hint=_HINT)


def _own_files(target: Path) -> dict[str, str] | None:
    """Return the digest of each file that an earlier rendering left, by its path; None where there is no such one."""
    try:
        own = _listed((target / MANIFEST).read_bytes(), "")
        own[MANIFEST] = str(sha256((target / MANIFEST).read_bytes()))
        for path in target.glob(f"*/{MANIFEST}"):
            data = path.read_bytes()
            own |= _listed(data, f"{path.parent.name}/")
            own[f"{path.parent.name}/{MANIFEST}"] = str(sha256(data))
    except (OSError, CanonicalError, ValueError):
        return None
    return own


def _listed(manifest: bytes, prefix: str) -> dict[str, str]:
    document = decode(manifest)
    if not isinstance(document, Mapping) or document.get("derive") != MANIFEST_TAG:
        raise ValueError("another document")
    files = document.get("files")
    return {f"{prefix}{path}": str(digest) for path, digest in files.items()} if isinstance(files, Mapping) else {}


def _is_own(path: Path, digest: str | None) -> bool:
    return digest is not None and not path.is_symlink() and path.is_file() and str(sha256(path.read_bytes())) == digest


@contextmanager
def _staged(target: Path) -> Iterator[Path]:
    """Yield a folder beside the target, gone afterwards; those that killed runs left go as well."""
    beginning, end = f".{target.name}.", ".partial"
    for left in target.parent.glob(f"{_literal(beginning)}*{end}"):
        _sweep(left)
    staged = target.parent / f"{beginning}{secrets.token_hex(8)}{end}"
    staged.mkdir()
    handle = os.open(staged, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield staged
    finally:
        os.close(handle)
        shutil.rmtree(staged, ignore_errors=True)


def _literal(text: str) -> str:
    import glob

    return glob.escape(text)


def _sweep(left: Path) -> None:
    """Remove an unfinished folder whose owner has gone."""
    with suppress(OSError):
        handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(handle)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o777 if data.startswith(b"#!") else 0o666
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)


def _put(staged: Path, target: Path) -> None:
    """Let a folder take the place of another at once; where the file system cannot, the other steps aside first."""
    try:
        staged.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.renameat2(_AT_CWD, os.fsencode(staged), _AT_CWD, os.fsencode(target), _EXCHANGE):
            aside = staged.with_suffix(".replaced.partial")
            target.rename(aside)
            staged.rename(target)
            shutil.rmtree(aside, ignore_errors=True)
