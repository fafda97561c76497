# SPDX-License-Identifier: Apache-2.0
"""The effect that says what a machine is and how it stands, as the document ``machine-facts/1``. It changes nothing.

Edge: the node: /proc, /sys, a few programs. Runs there: Python 3.8, standard library only.

Its keys, null where the machine has no such thing or does not say; what could not be read stands in ``unread``:

    host                       the host's name, up to the first dot
    boot_id, boot_ms, at_ms    which boot; milliseconds since then; milliseconds since 1970 by its clock
    user                       {name, uid, groups: [names]} of who asks
    kernel, machine, page_bytes, command_line, python
    memory                     {total_bytes, available_bytes, swap_total_bytes, swap_free_bytes}
    pressure                   of memory: {some_hundredths_percent, full_hundredths_percent} of the last ten seconds
    swaps                      [{file, size_bytes, used_bytes}]
    transparent_huge_pages, min_free_kbytes, watermark_boost_factor
    driver                     version of NVIDIA's driver
    modules                    {name: null | {version, srcversion, parameters: {name: text}}}
    network                    the body of the record that ``derive site facts`` prints
    neighbours                 [{interface, host, port}] by LLDP; null where nobody answered or it was not asked
    space                      {folder: {at, device, total_bytes, free_bytes, free_inodes}}, at the next that is there
    mounts                     {source: {kind: file | folder | other | null, readable, writable, reason}}, by who asks
    files                      {path: null | {size_bytes, mode, uid}}
    ports                      {number: whether something listens}
    systemd                    null | {version, running: whether it is the first process}
    units                      {name: {load, active, sub, result, ...}}
    cgroup                     {version, unified: folder of version 2 or null, controllers: [names]}
    sudo                       whether ``sudo -n`` is allowed
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import platform
import pwd
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Callable
from typing import Any

from derive.deploy.node.common import boot_id, boot_ms
from derive.deploy.node.network import network
from derive.deploy.node.units import read_shown

TAG = "machine-facts/1"
_PROGRAM_S = 10


def facts(given: dict[str, Any]) -> Any:
    """Return the facts; each group for itself, so that one that fails takes no other with it."""
    unread: list[str] = []
    # These take longest, and wait for each other's sake in nothing.
    asked = _Asked(given)
    gather: dict[str, Callable[[], Any]] = {
        "user": _user,
        "command_line": lambda: _text("/proc/cmdline"),
        "memory": _memory,
        "pressure": _pressure,
        "swaps": _swaps,
        "transparent_huge_pages": _huge_pages,
        "min_free_kbytes": lambda: _number("/proc/sys/vm/min_free_kbytes"),
        "watermark_boost_factor": lambda: _number("/proc/sys/vm/watermark_boost_factor"),
        "driver": _driver,
        "modules": lambda: {name: _module(name) for name in given["modules"]},
        "space": lambda: {folder: _space(folder) for folder in given["folders"]},
        "mounts": lambda: {source: _mount(source) for source in given["mounts"]},
        "files": lambda: {path: _file(path) for path in given["files"]},
        "ports": lambda: _ports(given["ports"]),
        "cgroup": _cgroup,
        "network": lambda: network(asked.out("ip"), given["name"]),
        "neighbours": lambda: _neighbours(asked),
        "systemd": lambda: _systemd(asked),
        "units": lambda: _units(asked, given["units"]),
        "sudo": lambda: asked.code("sudo") == 0,
    }
    found: dict[str, Any] = {
        "derive": TAG,
        "host": os.uname().nodename.partition(".")[0],
        "boot_id": boot_id(),
        "boot_ms": boot_ms(),
        "at_ms": time.time_ns() // 1_000_000,
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "python": platform.python_version(),
    }
    for key, function in gather.items():
        try:
            found[key] = function()
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            found[key] = None
            unread.append(f"{key}: {error}")
    found["unread"] = unread
    return found


class _Asked:
    """Programs that were started at once, and whose answers are read when they are needed."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: dict[str, bytes] = {}
        self._until = time.monotonic() + _PROGRAM_S
        self._start("ip", ["ip", "-json", "addr"])
        self._start("sudo", ["sudo", "-n", "true"] if os.getuid() != 0 else ["true"])
        self._start("version", ["systemctl", "--version"])
        if given["units"]:
            self._start("units", ["systemctl", "show", "--", *given["units"]])
        if given["lldp"]:
            words = ["lldpctl", "-f", "json0"]
            # Only root, and the daemon's own user, may ask it.
            self._start("lldp", words if os.getuid() == 0 else ["sudo", "-n", *words])

    def _start(self, name: str, command: list[str]) -> None:
        if shutil.which(command[0]) is not None:
            self._running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )

    def code(self, name: str) -> int | None:
        """Return a program's exit code; None where there is none, or it does not end."""
        running = self._running.get(name)
        if running is None:
            return None
        if name not in self._ended:
            try:
                self._ended[name] = running.communicate(timeout=max(0.1, self._until - time.monotonic()))[0]
            except subprocess.TimeoutExpired:
                running.kill()
                return None
        return running.returncode

    def out(self, name: str) -> str | None:
        """Return what a program printed; None where it failed or there is none."""
        return self._ended[name].decode(errors="replace") if self.code(name) == 0 else None


def _user() -> Any:
    groups = set()
    for gid in {*os.getgroups(), os.getgid()}:
        with contextlib.suppress(KeyError):
            groups.add(grp.getgrgid(gid).gr_name)
    return {"name": pwd.getpwuid(os.getuid()).pw_name, "uid": os.getuid(), "groups": sorted(groups)}


def _memory() -> Any:
    lines = (line.split() for line in _text("/proc/meminfo").splitlines())
    kib = {words[0].rstrip(":"): int(words[1]) for words in lines}
    keys = {
        "total_bytes": "MemTotal",
        "available_bytes": "MemAvailable",
        "swap_total_bytes": "SwapTotal",
        "swap_free_bytes": "SwapFree",
    }
    return {key: 1024 * kib[name] for key, name in keys.items()}


def _pressure() -> Any:
    if not os.path.exists("/proc/pressure/memory"):
        return None
    found = {}
    for line in _text("/proc/pressure/memory").splitlines():
        kind, first = line.split()[:2]
        whole, _, part = first.partition("=")[2].partition(".")
        found[f"{kind}_hundredths_percent"] = 100 * int(whole) + int(part[:2] or "0")
    return found


def _swaps() -> Any:
    rows = [line.split() for line in _text("/proc/swaps").splitlines()[1:]]
    return [{"file": row[0], "size_bytes": 1024 * int(row[2]), "used_bytes": 1024 * int(row[3])} for row in rows]


def _huge_pages() -> Any:
    try:
        found = re.search(r"\[(\w+)\]", _text("/sys/kernel/mm/transparent_hugepage/enabled"))
    except FileNotFoundError:
        return None
    return found.group(1) if found else None


def _driver() -> Any:
    with contextlib.suppress(FileNotFoundError):
        return _text("/sys/module/nvidia/version")
    with contextlib.suppress(FileNotFoundError):
        found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", _text("/proc/driver/nvidia/version"))
        return found.group(1) if found else None
    return None


def _module(name: str) -> Any:
    folder = f"/sys/module/{name}"
    if not os.path.isdir(folder):
        return None
    parameters = {}
    if os.path.isdir(f"{folder}/parameters"):
        for one in sorted(os.listdir(f"{folder}/parameters")):
            with contextlib.suppress(OSError):  # many are for root alone
                parameters[one] = _text(f"{folder}/parameters/{one}")
    found: dict[str, Any] = {"version": None, "srcversion": None, "parameters": parameters}
    for key in ("version", "srcversion"):
        with contextlib.suppress(OSError):
            found[key] = _text(f"{folder}/{key}")
    return found


def _space(folder: str) -> Any:
    at = folder
    while not os.path.isdir(at) and at != "/":
        at = os.path.dirname(at)
    told = os.statvfs(at)
    return {
        "at": at,
        "device": os.stat(at).st_dev,
        "total_bytes": told.f_blocks * told.f_frsize,
        "free_bytes": told.f_bavail * told.f_frsize,
        "free_inodes": told.f_favail,
    }


def _mount(source: str) -> Any:
    try:
        mode = os.stat(source).st_mode
    except OSError as error:
        return {"kind": None, "readable": False, "writable": False, "reason": (error.strerror or "").lower()}
    folder = stat.S_ISDIR(mode)
    inside = os.X_OK if folder else 0
    return {
        "kind": "folder" if folder else "file" if stat.S_ISREG(mode) else "other",
        "readable": os.access(source, os.R_OK | inside),
        "writable": os.access(source, os.W_OK | inside),
        "reason": None,
    }


def _file(path: str) -> Any:
    try:
        about = os.stat(path)
    except OSError:
        return None
    return {"size_bytes": about.st_size, "mode": stat.S_IMODE(about.st_mode), "uid": about.st_uid}


def _ports(wanted: list[int]) -> Any:
    listening = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError):
            for line in _text(path).splitlines()[1:]:
                words = line.split()
                if words[3] == "0A":
                    listening.add(int(words[1].rpartition(":")[2], 16))
    return {str(port): port in listening for port in wanted}


def _cgroup() -> Any:
    top = "/sys/fs/cgroup"
    for folder, version in ((top, 2), (f"{top}/unified", 1)):
        with contextlib.suppress(OSError):
            return {
                "version": version,
                "unified": folder,
                "controllers": _text(f"{folder}/cgroup.controllers").split(),
            }
    return {"version": 1, "unified": None, "controllers": []} if os.path.isdir(top) else None


def _neighbours(asked: _Asked) -> Any:
    printed = asked.out("lldp")
    if printed is None:
        return None
    found = []
    for block in json.loads(printed)["lldp"]:
        for one in block.get("interface", ()):
            hosts = [value["value"] for chassis in one.get("chassis", ()) for value in chassis.get("name", ())]
            ports = [port for whole in one.get("port", ()) for port in whole.get("id", ())]
            named = [port["value"] for port in ports if port.get("type") == "ifname"]
            described = [text["value"] for whole in one.get("port", ()) for text in whole.get("descr", ())]
            found.append(
                {
                    "interface": one["name"],
                    "host": hosts[0].partition(".")[0] if hosts else None,
                    "port": (named or described or [port["value"] for port in ports] or [None])[0],
                }
            )
    return sorted(found, key=lambda one: (one["interface"], str(one["host"])))


def _systemd(asked: _Asked) -> Any:
    printed = asked.out("version")
    found = re.match(r"systemd (\d+)", printed or "")
    if found is None:
        return None
    return {"version": int(found.group(1)), "running": os.path.isdir("/run/systemd/system")}


def _units(asked: _Asked, names: list[str]) -> Any:
    return {one["name"]: one for one in read_shown(asked.out("units") or "", names)} if names else {}


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def _number(path: str) -> Any:
    try:
        return int(_text(path))
    except FileNotFoundError:
        return None
