# SPDX-License-Identifier: Apache-2.0
"""The effect that frees a port which a lost connection still holds: its sshd has not noticed that nobody is there.

Edge: the node's processes and sockets; needs root. Runs there: Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any

from derive.deploy.node.common import Refused

_LISTENS = "0A"
_WAIT_S = 5.0
_ASKED_S = 2.0


def port_free(given: dict[str, Any]) -> Any:
    """End the sshd that listens on a port for a connection, and wait until the port is free."""
    port = int(given["port"])
    ended: set[int] = set()
    until = time.monotonic() + _WAIT_S
    while True:
        inodes = _listening(port)
        if not inodes:
            return {"ended": sorted(ended)}
        holders = _holders(inodes)
        others = [f"process   {pid} {name}" for pid, name in holders.items() if not _is_connection(pid, name)]
        if others or not holders or time.monotonic() > until:
            detail = others or [f"process   {pid} {name}" for pid, name in holders.items()]
            hint = f"on the node: sudo ss -ltnp 'sport = {port}'"
            raise Refused("taken", f"port {port} is listened on", detail, hint)
        for pid in holders:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if time.monotonic() > until - _WAIT_S + _ASKED_S else signal.SIGTERM)
            ended.add(pid)
        time.sleep(0.05)


def _listening(port: int) -> set[str]:
    found = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii") as file:
            for line in file.read().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                    found.add(words[9])
    return found


def _holders(inodes: set[str]) -> dict[int, str]:
    """Return the processes that have one of these sockets open, with the names of their programs."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                folder = f"/proc/{name}/fd"
                if any(_link(f"{folder}/{one}") in wanted for one in os.listdir(folder)):
                    with open(f"/proc/{name}/comm", encoding="utf-8", errors="replace") as file:
                        found[int(name)] = file.read().strip()
    return found


def _is_connection(pid: int, name: str) -> bool:
    """Say whether a process serves one connection of SSH: the machine's own sshd is spared, whatever it listens on."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            title = file.read().partition("\0")[0]
    except OSError:
        return False
    return name.startswith("sshd") and title.startswith("sshd") and ": " in title and "[listener]" not in title


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
