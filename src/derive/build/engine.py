# SPDX-License-Identifier: Apache-2.0
"""The digest of the engine's own sources: recorded with every realisation, and part of what is remembered.

Edge: reads the package's own files.
"""

from __future__ import annotations

from functools import cache

from derive.canonical import Digest, digest_document, sha256
from derive.engine.source import engine_files


@cache
def engine_digest() -> Digest:
    """Return the SHA-256 over the names and contents of the engine's source files, read once by each process."""
    files = {path: sha256(data).hex for path, data in engine_files().items()}
    return digest_document({"derive": "engine/1", "files": files})
