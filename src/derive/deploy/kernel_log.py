# SPDX-License-Identifier: Apache-2.0
"""What a kernel's log says of a container whose processes it killed for want of memory.

Core: no IO. Standard library only.

An engine says no more than that it was so, and not even that always: of a process that the kernel chose while the whole
machine had no memory left, its log alone says which it was, and how large.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from derive.canonical import Json

_CHOSEN = re.compile(r"oom-kill:constraint=(\w+).*?,task_memcg=([^,]*),task=(.*),pid=(\d+),uid=\d+\s*$")
_KILLED = re.compile(r"Killed process (\d+) .*?anon-rss:(\d+)kB, file-rss:(\d+)kB, shmem-rss:(\d+)kB")
_OWN_LIMIT = "CONSTRAINT_MEMCG"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelKill:
    """A process that the kernel killed for want of memory.

    ``resident_bytes`` is what it held, None where the log does not say; ``own_limit``: its group was at a limit of its
    own, else the machine had no memory left.
    """

    process: str
    pid: int
    resident_bytes: int | None
    own_limit: bool

    def document(self) -> dict[str, Json]:
        """Return it as part of a record."""
        return {
            "process": self.process,
            "pid": self.pid,
            "resident_bytes": self.resident_bytes,
            "own_limit": self.own_limit,
        }


def kernel_kill(log: str, container: str) -> KernelKill | None:
    """Return the first process of a container, by its id, that a kernel's log says it killed; None for none."""
    found: KernelKill | None = None
    for line in log.splitlines():
        chosen = _CHOSEN.search(line)
        if chosen is not None and found is None and container and container in chosen[2]:
            found = KernelKill(
                process=chosen[3], pid=int(chosen[4]), resident_bytes=None, own_limit=chosen[1] == _OWN_LIMIT
            )
            continue
        killed = _KILLED.search(line)
        if killed is not None and found is not None and int(killed[1]) == found.pid:
            size = 1024 * sum(int(killed[part]) for part in (2, 3, 4))
            return KernelKill(process=found.process, pid=found.pid, resident_bytes=size, own_limit=found.own_limit)
    return found


def kernel_text(kill: KernelKill) -> str:
    """Say what the kernel killed, and why."""
    size = "" if kill.resident_bytes is None else f", which held {kill.resident_bytes / (1 << 30):.2f} GiB"
    where = "the container was at its own limit" if kill.own_limit else "the machine had no memory left"
    return f"the kernel killed {kill.process}{size}, for want of memory (OOM): {where}"
