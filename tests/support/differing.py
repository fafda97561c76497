# SPDX-License-Identifier: Apache-2.0
"""Archives made for comparing them, and the answer of a comparison as text.

Core: no IO.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Mapping
from io import BytesIO

from derive.differ.differ import differ
from derive.differ.model import LIMITS, Limits
from derive.why.render import render


def told(name: str, first: bytes, second: bytes, limits: Limits = LIMITS) -> str:
    """Return how two files differ, as a person reads it."""
    return render(differ(name, first, second, limits), colour=False)


def zipped(files: Mapping[str, bytes], year: int = 1980, method: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip archive of files."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
            info.compress_type = method
            archive.writestr(info, data)
    return out.getvalue()


def tarred(files: Mapping[str, bytes], mode: int = 0o644, time: int = 0) -> bytes:
    """Return a tar archive of files."""
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), mode, time
            archive.addfile(info, BytesIO(data))
    return out.getvalue()
