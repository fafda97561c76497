# SPDX-License-Identifier: Apache-2.0
"""The effects that say whether this machine is idle, and that hold the lock of builds while saying so each second.

Edge: the node: /proc, the container engine's socket, one lock. Runs there: Python 3.8, standard library only.

``idle-facts/1``: ``available_bytes``, ``total_bytes``, ``cpus``, ``containers`` ([{name, labels: [names]}] of those
that run, or null with the reason in ``unread``), ``holder`` (who holds the lock of builds, or null), ``at_ms``.

A socket that is absent says that no containers run only where no program of a container engine is installed: an engine
may listen elsewhere, or may have left its containers running when it ended.

The lock is that of a file, which any user may take: only one build runs on a machine that also serves. Whoever holds it
writes there who it is, and by which process of this machine it does: what one that has ended wrote says nothing of who
holds it now.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import socket
import sys
import time
from typing import Any

from derive.deploy.node.common import Refused
from derive.deploy.node.guarded import started_at

TAG = "idle-facts/1"
SAYS = "derive-says "
_ENGINE_S = 5.0
_MOST = 4 << 20
_MOST_SAID = 400
_TRIES = 4
_PAUSE_S = 0.05
_ENGINES = ("docker", "dockerd", "podman", "nerdctl", "containerd")
_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/snap/bin")
"""Where programs are, beside the folders of PATH: a session of SSH that no person opened may know few of them."""


class _Engine(http.client.HTTPConnection):
    """HTTP through the engine's socket."""

    def __init__(self, path: str) -> None:
        super().__init__("engine", timeout=_ENGINE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_ENGINE_S)
        self.sock.connect(self._path)


def idle_facts(given: dict[str, Any]) -> Any:
    """Return the facts once; nothing is held."""
    return _facts(given, _holder(given["lock"]))


def idle_watch(given: dict[str, Any]) -> Any:
    """Take the lock of builds, and say the facts again and again until the other side is gone, or ``most_s`` are over.

    The first line is said once the lock is held. The end of this process frees the lock, however it comes.
    """
    with _held(given["lock"], given["who"]):
        until = time.monotonic() + float(given["most_s"])
        while time.monotonic() < until:
            sys.stdout.write("\n" + SAYS + json.dumps(_facts(given, None)) + "\n")
            sys.stdout.flush()
            time.sleep(float(given["every_s"]))
    return None


def _facts(given: dict[str, Any], holder: Any) -> Any:
    with open("/proc/meminfo", encoding="ascii") as file:
        kib = {words[0].rstrip(":"): int(words[1]) for words in map(str.split, file)}
    found = {
        "derive": TAG,
        "available_bytes": 1024 * kib["MemAvailable"],
        "total_bytes": 1024 * kib["MemTotal"],
        "cpus": len(os.sched_getaffinity(0)),
        "containers": None,
        "unread": "",
        "holder": holder,
        "at_ms": time.time_ns() // 1_000_000,
    }
    try:
        found["containers"] = _containers(given["engine"])
    except FileNotFoundError:
        program = _engine_program()
        if program is None:
            found["containers"] = []
        else:
            found["unread"] = "no socket " + given["engine"] + ", and there is " + program
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
        found["unread"] = str(error) or type(error).__name__
    return found


def _engine_program() -> Any:
    """Return the path of a container engine's program, or None where none is installed."""
    for folder in [*os.get_exec_path(), *_FOLDERS]:
        for name in _ENGINES:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return path
    return None


def _containers(engine: str) -> Any:
    with contextlib.closing(_Engine(engine)) as connection:
        connection.request("GET", "/containers/json")
        answer = connection.getresponse()
        text = answer.read(_MOST)
        if answer.status != 200:
            raise OSError(f"the engine answered {answer.status}")
    listed = json.loads(text.decode("utf-8"))
    found = [{"name": one["Names"][0].lstrip("/"), "labels": sorted(one.get("Labels") or {})} for one in listed]
    return sorted(found, key=lambda one: str(one["name"]))


def _open(path: str) -> int:
    """Open the file of the lock, which other users' builds may open, too, and follow no link there."""
    how = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    # In a folder like /tmp Linux lets nobody open another user's file with the wish to make it.
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, how)
    descriptor = os.open(path, how | os.O_CREAT, 0o666)
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, 0o666)
    return descriptor


def _holder(path: str) -> Any:
    """Return who holds the lock, or None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _said(descriptor)
    finally:
        os.close(descriptor)
    return None


def _said(descriptor: int) -> str:
    """Return who holds the lock, as far as it was written by a process that still lives: only such a one holds it."""
    words, _, process = os.pread(descriptor, _MOST_SAID, 0).decode("utf-8", "replace").strip().partition("\n")
    pid, _, began = process.partition(" ")
    lives = pid.isdecimal() and began.isdecimal() and started_at(int(pid)) == int(began)
    return "".join(one if one.isprintable() else "?" for one in words) if lives and words else "somebody"


def _saying(who: str) -> bytes:
    """Return what is written into the file: who holds it, and the process that does, with when it began."""
    return who.replace("\n", " ").encode("utf-8")[:200] + f"\n{os.getpid()} {started_at(os.getpid())}\n".encode("ascii")


@contextlib.contextmanager
def _held(path: str, who: str) -> Any:
    descriptor = _open(path)
    try:
        if not _taken(descriptor):
            said = _said(descriptor)
            raise Refused("busy", "another build runs there", ["holder    " + said], "wait until it has ended")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _saying(who), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    """Take the lock, unless it is held for longer than it takes to ask who holds it."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False
