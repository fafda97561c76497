# SPDX-License-Identifier: Apache-2.0
"""The events of keys on disk: ``records/keys/`` of a project, read whole, and added to one file at a time.

Edge: reads and writes that folder.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from derive.canonical import Json, encode
from derive.errors import Corrupt, HostRefuses, InputErrors, Problem, RecordEdited
from derive.infile import NotPlain, read_plain
from derive.records.model import record
from derive.store.blobs import sync_folder
from derive.trust.history import FOLDER, History, next_name, now_trusted, read_history
from derive.trust.policy import Policy
from derive.words import unreadable

_LARGEST = 1 << 20


def load_history(root: Path) -> History:
    """Read what became of a project's keys; a project without events has an empty history.

    Raises:
        Corrupt: when an event cannot be read, or does not follow the one before it: no key is then taken for good.
    """
    history, problems = read_history(_files(root))
    if problems:
        (problem,) = problems
        raise RecordEdited(problem.message, where=problem.where, detail=problem.detail, hint=problem.hint)
    return history


def history_problems(root: Path) -> tuple[Problem, ...]:
    """Return what is wrong with the events of keys; nothing raises."""
    try:
        return tuple(read_history(_files(root))[1])
    except (Corrupt, HostRefuses) as error:
        return error.problems()


def with_history(root: Path, policy: Policy | None) -> Policy | None:
    """Return whose signatures a project takes after all that became of its keys; raises as :func:`load_history`."""
    if policy is None or not (root / FOLDER).is_dir():
        return policy
    return now_trusted(policy, load_history(root))


def add_event(root: Path, kind: str, subject: str, body: Mapping[str, Json]) -> Path:
    """Append an event and return its file; nothing is there unless all is.

    Raises:
        Corrupt: as :func:`load_history`.
        InputErrors: when what is added could not be read back.
        HostRefuses: when the folder cannot be written.
    """
    folder = root / FOLDER
    with _locked(folder):
        files = _files(root)
        history = load_history(root)
        name = next_name(history, subject)
        data = encode(record(kind, subject, body, history.head)) + b"\n"
        _, problems = read_history({**files, name: data})
        if problems:
            raise InputErrors(problems)
        _write(folder / name, data)
    return folder / name


def _files(root: Path) -> dict[str, bytes]:
    folder = root / FOLDER
    try:
        # A hidden file is an editor's, or what a killed process left.
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208 - names alone
        return {name: read_plain(folder / name, _LARGEST, follow=False)[0] for name in names}
    except FileNotFoundError:
        return {}
    except NotPlain as error:
        where = f"{FOLDER}/{Path(error.filename).name}"
        hint = f"take it as it was committed: git log -- {where}"
        raise RecordEdited(unreadable(error), where=where, hint=hint) from error
    except OSError as error:
        raise HostRefuses(f"cannot be read: {(error.strerror or '').lower()}", where=str(folder)) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=str(folder)) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write(path: Path, data: bytes) -> None:
    staged = path.parent / f".{secrets.token_hex(8)}.partial"
    try:
        with staged.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(staged, path)  # a rename would replace what another process put there meanwhile
        sync_folder(path.parent)
    except OSError as error:
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=str(path)) from error
    finally:
        staged.unlink(missing_ok=True)
