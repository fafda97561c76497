# SPDX-License-Identifier: Apache-2.0
"""Writes a new project into a folder that holds nothing of it yet.

Edge: the file system.
"""

from __future__ import annotations

import re
from pathlib import Path

from derive.errors import HostRefuses, InputErrors, Problem
from derive.init.template import project_files

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


def write_project(folder: Path, name: str) -> list[str]:
    """Write the files of a new project, and return their paths.

    Raises:
        InputErrors: when a file of that name is there already, each by name, or the name is not one for an image.
    """
    if not _NAME.fullmatch(name):
        raise InputErrors.one(
            f"not a name for an image: {name!r}", hint="use lower-case letters, digits and . _ -, or give --name"
        )
    files = project_files(name)
    problems = [
        Problem(where=str(folder / path), message="is there already, and is left as it is")
        for path in files
        if (folder / path).exists()
    ]
    if problems:
        raise InputErrors(problems)
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HostRefuses(f"cannot write the project: {error.strerror}", where=str(error.filename)) from error
    return sorted(files)
