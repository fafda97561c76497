# SPDX-License-Identifier: Apache-2.0
"""Reads a rendered folder: what each of its files holds, and which can be run.

Edge: reads folders and files. A folder that was not rendered is not gone into.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.errors import InputErrors
from derive.infile import read_plain
from derive.render.manifest_names import MANIFEST
from derive.words import unreadable

_LARGEST = 16 << 20
"""Bytes; more than any rendered file has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """All files by their path, and the mode of each (the lower 12 bits)."""

    files: Mapping[str, bytes]
    modes: Mapping[str, int]


def read_files(folder: Path) -> Written:
    """Return every file below a folder; none where it has no manifest. Links to files are followed.

    Raises:
        InputErrors: when it is no folder, or any of it cannot be read.
    """
    try:
        if not folder.is_dir():
            raise InputErrors.one("no such folder", where=str(folder), hint="render one: derive render --out FOLDER")
        paths = sorted(_paths(folder)) if (folder / MANIFEST).is_file() else []
        read = {path.relative_to(folder).as_posix(): read_plain(path, _LARGEST) for path in paths}
    except OSError as error:
        raise InputErrors.one(unreadable(error), where=str(error.filename or folder)) from error
    return Written(
        files={path: data for path, (data, _) in read.items()},
        modes={path: mode for path, (_, mode) in read.items()},
    )


def _paths(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise error

    for inside, _, names in os.walk(folder, onerror=refuse):
        yield from (path for name in names if (path := Path(inside) / name).is_file())
