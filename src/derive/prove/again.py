# SPDX-License-Identifier: Apache-2.0
"""Renders once more in processes that are as unlike this one as they can be.

Edge: runs this program in a folder of its own.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import derive
from derive.errors import DeriveError

_UNLIKE: tuple[Mapping[str, str], ...] = (
    {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC", "PYTHONUTF8": "0"},
    {"PYTHONHASHSEED": "4242", "LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu", "COLUMNS": "40"},
)
WAYS = "hash seed, locale, time zone and folder"
"""In what the processes differ."""

_LATE_SECONDS = 120


def render_again(question: Mapping[str, str | None]) -> Iterator[Mapping[str, bytes]]:
    """Yield all files of all nodes, as each of two other processes renders them; the question is that of ``child``.

    Raises:
        DeriveError: when one of them could not.
    """
    asked = json.dumps(question).encode()
    with tempfile.TemporaryDirectory(prefix="derive-prove-") as folder:
        started = [_start(changes, Path(folder)) for changes in _UNLIKE]
        try:
            for process in started:
                answered, said = process.communicate(asked, timeout=_LATE_SECONDS)
                if process.returncode != 0:
                    lines = said.decode("utf-8", "replace").splitlines()[-5:]
                    raise DeriveError("another process could not render it", detail=lines)
                found: dict[str, str] = json.loads(answered)
                yield {path: base64.b64decode(text) for path, text in found.items()}
        finally:
            for process in started:
                process.kill()
                process.communicate()


def _start(changes: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    sources = str(Path(derive.__file__).resolve().parents[1])
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "derive.prove.child"],
        cwd=folder,
        env={**os.environ, **changes, "PYTHONPATH": sources},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
