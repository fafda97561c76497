# SPDX-License-Identifier: Apache-2.0
"""The chain on disk: read whole, and appended to under a lock, one file by rename.

Edge: reads and writes ``records/releases/`` of a project.

Whoever appends locks the folder itself, so that no file of a lock is left in a repository. The kernel gives the lock
back when its holder dies; what a killed process left unfinished has a hidden name, and goes with the next one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from derive.canonical import Json
from derive.errors import HostRefuses, InputErrors, Problem
from derive.infile import read_plain
from derive.records.chain import FOLDER, Chain, chain_problems, file_name, next_number, place, read_chain
from derive.records.kinds import body_problems, new_name_problem
from derive.records.model import Record
from derive.store.blobs import sync_folder
from derive.words import unreadable

_LARGEST = 64 << 20
"""No document comes near it: the facts of some thousand derivations take a megabyte."""

_PARTIAL = ".partial"


def files_below(root: Path) -> dict[str, bytes]:
    """Return every file of ``records/releases/`` of a project, by its path below that folder; hidden ones are none.

    Raises:
        InputErrors: for each that is no ordinary file, or cannot be read.
    """
    files, problems = read_files(root)
    if problems:
        raise InputErrors(problems)
    return files


def read_files(root: Path) -> tuple[dict[str, bytes], tuple[Problem, ...]]:
    """Return the files as :func:`files_below` does, and what is no ordinary file or cannot be read beside them."""
    problems: list[Problem] = []
    files: dict[str, bytes] = {}
    _read(root / FOLDER, "", files, problems)
    return dict(sorted(files.items())), tuple(problems)


def load(root: Path) -> Chain:
    """Read a project's chain, whose links hold; an absent folder is an empty chain.

    Raises:
        InputErrors: everything that is wrong with any record; documents are checked where they are read.
    """
    return sound(files_below(root))


def sound(files: Mapping[str, bytes]) -> Chain:
    """Return the chain that files are; raises InputErrors with everything that is wrong with any record."""
    chain = read_chain(files)
    problems = chain_problems(chain, files)
    if problems:
        raise InputErrors(problems)
    return chain


def append(root: Path, kind: str, subject: str, body: Mapping[str, Json], suffix: str | None = None) -> Path:
    """Append a record ``NNNN-<subject>[-<suffix>].json`` with the next number, and return its path.

    Raises:
        InputErrors: when the chain is broken, or the body is not as its kind says.
        HostRefuses: when it cannot be written.
    """
    with alone(root):
        return append_to(root, load(root), kind, subject, body, suffix)


def append_to(
    root: Path, chain: Chain, kind: str, subject: str, body: Mapping[str, Json], suffix: str | None = None
) -> Path:
    """Append to a chain that was read while the lock is held; raises as :func:`append` does."""
    name, data = next_file(chain, kind, subject, body, suffix)
    path = root / FOLDER / name
    write_new(path, data)
    return path


def next_file(
    chain: Chain, kind: str, subject: str, body: Mapping[str, Json], suffix: str | None = None
) -> tuple[str, bytes]:
    """Return name and bytes of the record that would follow a chain; raises InputErrors for one that may not."""
    try:
        name = file_name(next_number(chain), subject, suffix)
    except ValueError as error:
        raise InputErrors.one(str(error), where=FOLDER) from error
    data = Record(kind=kind, subject=subject, previous=chain.head, body=body).encoded() + b"\n"
    stems = [one.file.removesuffix(".json") for one in chain.entries]
    unfit = new_name_problem(kind, subject, f"{place(name)}: subject", stems)
    problems = [*body_problems(kind, body, place(name)), *([] if unfit is None else [unfit])]
    problems += read_chain({name: data}).problems
    if problems:
        raise InputErrors(problems)
    return name, data


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Hold the lock of a project's chain; raises HostRefuses when the folder cannot be made or written."""
    folder = root / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=FOLDER) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        _sweep(folder)
        yield
    finally:
        os.close(handle)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all, in a folder that is made; what has its name stays.

    Raises:
        InputErrors: when something has its name.
        HostRefuses: when it cannot be written.
    """
    shown = str(path)
    staged = path.parent / f".{path.name}.{secrets.token_hex(8)}{_PARTIAL}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with staged.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # Unlike a rename, a link takes nobody's place.
        os.link(staged, path)
        sync_folder(path.parent)
    except FileExistsError as error:
        raise InputErrors.one("something has this name already", where=shown) from error
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS) and not path.exists():
            staged.replace(path)  # a file system without hard links; the lock keeps others away
            return
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=shown) from error
    finally:
        with suppress(OSError):
            staged.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Remove what a killed process left unfinished: nobody else writes while the lock is held."""
    for found in (folder, *(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink())):
        for path in found.glob(f".*{_PARTIAL}"):
            with suppress(OSError):
                path.unlink()


def _read(folder: Path, prefix: str, files: dict[str, bytes], problems: list[Problem]) -> None:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(Problem(where=place(prefix) if prefix else FOLDER, message=unreadable(error)))
        return
    for name in names:
        path, shown = folder / name, f"{prefix}{name}"
        if name.startswith(".") or name.endswith("~"):
            continue
        try:
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode) and (prefix or name.endswith(".json")):
                hint = "a folder holds the documents of a release, and has its name"
                problems.append(Problem(where=place(shown), message="a folder, where a file is", hint=hint))
            elif stat.S_ISDIR(mode):
                _read(path, f"{shown}/", files, problems)
            else:
                files[shown], _ = read_plain(path, _LARGEST, follow=False)
        except OSError as error:
            hint = f"take it as it was committed: git log -- {place(shown)}"
            problems.append(Problem(where=place(shown), message=unreadable(error), hint=hint))
