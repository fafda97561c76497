# SPDX-License-Identifier: Apache-2.0
"""What a report is made from: every file of ``records/``, and the page's template.

Edge: reads ``records/`` of a project, and this package.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from derive.canonical import escape
from derive.errors import InputErrors, Problem
from derive.infile import read_plain
from derive.words import unreadable

FOLDER = "records"
_LARGEST = 64 << 20
_TEMPLATE = "page.html.j2"


def files_of_records(root: Path) -> dict[str, bytes]:
    """Return every ``.json`` file of a project's records by its path below ``records/``; hidden ones are none.

    Raises:
        InputErrors: for each that is no ordinary file, or cannot be read.
    """
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for path in sorted(_below(root / FOLDER)):
        name = escape(os.fsencode(path.relative_to(root / FOLDER)))
        try:
            files[name] = read_plain(path, _LARGEST, follow=False)[0]
        except OSError as error:
            problems.append(Problem(where=f"{FOLDER}/{name}", message=unreadable(error)))
    if problems:
        raise InputErrors(problems)
    return files


def page_template() -> str:
    """Return the template of the page."""
    from importlib.resources import files

    return files("derive.report").joinpath(_TEMPLATE).read_text("utf-8")


def _below(folder: Path) -> Iterator[Path]:
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(above, name) for name in names if name.endswith(".json") and not name.startswith("."))
