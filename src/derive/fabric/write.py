# SPDX-License-Identifier: Apache-2.0
"""Writes files that a person goes on editing: a new one where nothing is, or a changed one in its place.

Edge: the file system.
"""

from __future__ import annotations

import os
from pathlib import Path

from derive.errors import HostRefuses, InputErrors

PRIVATE = 0o600


def write_new(path: Path, text: str, *, mode: int = 0o644, folders: bool = False) -> None:
    """Write a file that is not there yet, whole or not at all; with ``folders`` make those that it lies in.

    Raises:
        InputErrors: when something of that name is there already: it is left as it is.
        HostRefuses: when it cannot be written.
    """
    from derive.store.blobs import sync_folder

    staged = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(handle, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            # A link, unlike a rename, leaves what is there.
            os.link(staged, path)
        finally:
            staged.unlink()
        sync_folder(path.parent)
    except FileExistsError:
        raise InputErrors.one("is there already, and is left as it is", where=str(path)) from None
    except OSError as error:
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=str(path)) from error


def replace(path: Path, text: str) -> None:
    """Put a changed text in a file's place, which keeps its mode; a link is followed.

    Raises:
        HostRefuses: when it cannot be written.
    """
    from derive.outfile import open_output

    with open_output(path) as file:
        file.write(text.encode())
