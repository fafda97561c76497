# SPDX-License-Identifier: Apache-2.0
"""The digest of the engine's own sources: recorded with every realisation, and part of what is remembered.

Edge: reads the package's own files.
"""

from __future__ import annotations

import os

from derive.canonical import Digest, digest_document, sha256


def engine_digest() -> Digest:
    """Return the SHA-256 over the names and contents of the engine's source files."""
    root = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - on the path where milliseconds count
    files: dict[str, str] = {}
    _collect(root, "", files)
    return digest_document({"derive": "engine/1", "files": files})


def _collect(folder: str, prefix: str, files: dict[str, str]) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith((".", "__pycache__")):
                continue
            if entry.is_dir():
                _collect(entry.path, f"{prefix}{entry.name}/", files)
            else:
                with open(entry.path, "rb") as file:  # noqa: PTH123 - likewise
                    files[prefix + entry.name] = sha256(file.read()).hex
