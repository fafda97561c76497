# SPDX-License-Identifier: Apache-2.0
"""Reads what a certificate says of the machine that it is made on.

Edge: files of the kernel and of the system. Nothing is changed, and no rights are needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from derive.canonical import Digest, digest_document
from derive.certificates.model import Host
from derive.errors import HostRefuses, InputErrors

VARIABLE = "DERIVE_MACHINE_ID"
"""What stands for the machine where it has no machine-id of its own, as in a container."""

_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
_BOOT = "proc/sys/kernel/random/boot_id"
_SHORTEST = 16


def host_here(salt: Digest, environ: Mapping[str, str], root: Path = Path("/")) -> Host:
    """Return this machine; ``salt`` is the digest of what is certified, so that ids of two releases tell nothing.

    Raises:
        HostRefuses: when nothing tells this machine from others.
        InputErrors: when what stands for it is too short.
    """
    said = environ.get(VARIABLE, "").strip()
    machine = said or next(filter(None, (_read(root / path) for path in _IDS)), "")
    hint = f"give 32 random digits that stay this machine's own: {VARIABLE}=$(openssl rand -hex 16)"
    if said and len(said) < _SHORTEST:
        detail = [f"expected  {_SHORTEST} characters or more", f"got       {len(said)}"]
        raise InputErrors.one("too short to be one machine's", where=VARIABLE, detail=detail, hint=hint)
    if len(machine) < _SHORTEST:
        raise HostRefuses("this machine has no machine-id", where=f"/{_IDS[0]}", hint=hint)
    # Whoever says which machine this is says nothing of its kernel: two of one boot are one host under two names.
    boot = _read(root / _BOOT)
    if not boot:
        raise HostRefuses(
            "nothing tells one start of this machine from another",
            where=f"/{_BOOT}",
            hint="have /proc mounted: who certifies says on which kernel",
        )
    facts = os.uname()
    return Host(
        id=hidden("machine", machine, salt),
        boot=hidden("boot", boot, salt),
        architecture=facts.machine,
        cpu=cpu_of(_read(root / "proc/cpuinfo")),
        cores=os.cpu_count() or 0,
        memory_bytes=memory_of(_read(root / "proc/meminfo")),
        kernel=facts.release,
    )


def hidden(what: str, text: str, salt: Digest) -> Digest:
    """Return what stands for a machine or a boot; ``what`` is ``machine`` or ``boot``."""
    return digest_document({"derive": "host/1", "what": what, "text": text, "salt": str(salt)})


def cpu_of(found: str) -> str:
    """Return the processor that a text of ``/proc/cpuinfo`` tells of; ``unknown`` where it names none."""
    # Arm's kernel names no model: implementer and part are what there is.
    told = [_value(found, key) for key in ("model name", "Model", "CPU implementer", "CPU part")]
    named = next(filter(None, told[:2]), "")
    return named or " ".join(filter(None, told[2:])) or "unknown"


def _value(text: str, key: str) -> str:
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def memory_of(found: str) -> int:
    """Return the bytes that a text of ``/proc/meminfo`` tells of; 0 where it tells of none."""
    words = _value(found, "MemTotal").split()
    return int(words[0]) * 1024 if words and words[0].isdecimal() else 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
