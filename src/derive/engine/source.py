# SPDX-License-Identifier: Apache-2.0
"""The source of the engine that runs: the files of its own package, read as they lie.

Edge: reads the package's own files.
"""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - asked at every start


def engine_files() -> dict[str, bytes]:
    """Return the files of the package ``derive`` by their path in it, without caches and hidden files.

    They are those that ``derive.build.engine.engine_digest`` is taken of.
    """
    files: dict[str, bytes] = {}
    _collect(_PACKAGE, "", files)
    return files


def _collect(folder: str, prefix: str, files: dict[str, bytes]) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith((".", "__pycache__")):
                continue
            if entry.is_dir():
                _collect(entry.path, f"{prefix}{entry.name}/", files)
            else:
                with open(entry.path, "rb") as file:  # noqa: PTH123 - hundreds of them, at every release
                    files[prefix + entry.name] = file.read()
