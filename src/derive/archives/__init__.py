# SPDX-License-Identifier: Apache-2.0
"""Strict readers of archives: a blob in the store becomes a tree in the store, or is refused by name.

Core: no IO.
"""

from __future__ import annotations

from derive.archives.identity import Expected
from derive.archives.names import DEFAULT_LIMITS, Limits
from derive.archives.notes import Dropped, Note, Replaced, summary
from derive.archives.unpack import Unpacked, unpack_deb, unpack_sdist, unpack_tar, unpack_wheel, unpack_zip

__all__ = [
    "DEFAULT_LIMITS",
    "Dropped",
    "Expected",
    "Limits",
    "Note",
    "Replaced",
    "Unpacked",
    "summary",
    "unpack_deb",
    "unpack_sdist",
    "unpack_tar",
    "unpack_wheel",
    "unpack_zip",
]
