# SPDX-License-Identifier: Apache-2.0
"""The effects that run a program while the lease is held, and that read files.

Edge: the node. Runs there: Python 3.8, standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import stat
import subprocess
from typing import Any

from derive.deploy.node.common import Refused, fenced
from derive.deploy.node.program import on_loss, unbroken


def run(given: dict[str, Any]) -> Any:
    """Run a program to its end. Where the other side is lost meanwhile, it is told to end."""
    with fenced(given):
        try:
            with unbroken:
                child = subprocess.Popen(
                    given["argv"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
                on_loss(lambda: _end(child.pid))
        except OSError as error:
            hint = "install it on this node"
            raise Refused("no-program", f"{given['argv'][0]}: {(error.strerror or '').lower()}", hint=hint) from None
        out, err = child.communicate(base64.b64decode(given["stdin"]))
    return {"code": child.returncode, "out": base64.b64encode(out).decode(), "err": base64.b64encode(err).decode()}


def _end(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGTERM)


def files_read(given: dict[str, Any]) -> Any:
    """Return files, or the last part of those that are longer; and the newest files of folders."""
    limit = int(given["limit"])
    paths = list(given["paths"])
    for folder in given["folders"]:
        paths += _newest(folder, int(given["newest"]))
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            found[path] = _read(path, limit)
    return found


def _newest(folder: str, count: int) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            files = [one for one in entries if one.is_file(follow_symlinks=False)]
            files.sort(key=lambda one: one.stat(follow_symlinks=False).st_mtime_ns, reverse=True)
    except OSError:
        return []
    return [one.path for one in files[:count]]


def _read(path: str, limit: int) -> dict[str, Any]:
    # A pipe or a device could keep this waiting for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError("not a file")
        file.seek(max(0, about.st_size - limit))
        data = file.read(limit)
    return {
        "data": base64.b64encode(data).decode(),
        "size": max(about.st_size, len(data)),
    }
