# SPDX-License-Identifier: Apache-2.0
"""The effects on systemd's units: put in place, removed, looked at.

Edge: the node, its systemd. Runs there: Python 3.8, standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import subprocess
from typing import Any

from derive.deploy.node.common import Refused, fenced, sync_folder, write_whole

_NAME = re.compile(r"derive-[A-Za-z0-9_.@:-]+\.(service|slice|timer|target)")
_SHOWN = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "MainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "ActiveEnterTimestampMonotonic",
)
_BUSY = ("active", "activating", "reloading", "deactivating")


def units_install(given: dict[str, Any]) -> Any:
    """Put units in place, each whole, remove others, and let systemd read them again, however often it is asked."""
    units = {_name(name): base64.b64decode(text) for name, text in given["units"].items()}
    into = given["into"]
    with fenced(given):
        _require_systemd(given)
        changed = [name for name, data in units.items() if _is_other(os.path.join(into, name), data)]
        os.makedirs(into, mode=0o755, exist_ok=True)
        for name in changed:
            write_whole(os.path.join(into, name), units[name])
        changed += _unlink(into, [_name(name) for name in given["remove"] if name not in units])
        # Also where nothing changed: an earlier attempt may have been cut off between the files and this.
        _systemctl(given, "daemon-reload")
    return {"changed": changed}


def units_remove(given: dict[str, Any]) -> Any:
    """Remove units that do not run, and let systemd forget them."""
    names = [_name(name) for name in given["names"]]
    with fenced(given):
        _require_systemd(given)
        busy = [f"{one['name']} is {one['active']}" for one in _show(given, names) if one["active"] in _BUSY]
        if busy:
            raise Refused("busy", "units still run, and none was removed", busy, "stop the service first")
        changed = _unlink(given["into"], names)
        _systemctl(given, "daemon-reload")
        for name in names:
            with contextlib.suppress(Refused):  # it is not there any more
                _systemctl(given, "reset-failed", name)
    return {"changed": changed}


def unit_states(given: dict[str, Any]) -> Any:
    """Return how units stand; nothing is changed, and no rights are needed."""
    _require_systemd(given)
    return {one["name"]: one for one in _show(given, given["names"])}


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Refused("wrong", f"not a unit of derive's: {name!r}")
    return name


def _is_other(path: str, data: bytes) -> bool:
    if os.path.islink(path):
        raise Refused(
            "masked", f"{path} is a link to {os.readlink(path)}", hint=f"systemctl unmask {os.path.basename(path)}"
        )
    try:
        with open(path, "rb") as file:
            return file.read() != data
    except FileNotFoundError:
        return True


def _unlink(into: str, names: list[str]) -> list[str]:
    removed = []
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(into, name))
            removed.append(name)
    if removed:
        sync_folder(into)
    return removed


def _require_systemd(given: dict[str, Any]) -> None:
    if given.get("manager") != "user" and not os.path.isdir("/run/systemd/system"):
        raise Refused(
            "no-systemd", "systemd is not this machine's first process", hint="such a node is supervised instead"
        )


def _show(given: dict[str, Any], names: list[str]) -> list[dict[str, Any]]:
    return read_shown(_systemctl(given, "show", f"--property={','.join(_SHOWN)}", "--", *names), names) if names else []


def read_shown(printed: str, names: list[str]) -> list[dict[str, Any]]:
    """Read what ``systemctl show`` prints of units, in the order in which they were named."""
    blocks = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in printed.split("\n\n")]
    return [
        {
            "name": name,
            "load": block.get("LoadState", "not-found"),
            "active": block.get("ActiveState", "inactive"),
            "sub": block.get("SubState", "dead"),
            "result": block.get("Result", "success"),
            "pid": _number(block.get("MainPID")),
            "exit_code": _number(block.get("ExecMainCode")),
            "exit_status": _number(block.get("ExecMainStatus")),
            "since_ns": 1000 * _number(block.get("ActiveEnterTimestampMonotonic")),
        }
        for name, block in zip(names, blocks)
    ]


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


def _systemctl(given: dict[str, Any], *words: str) -> str:
    command = ["systemctl", *(["--user"] if given.get("manager") == "user" else []), *words]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        raise Refused("no-systemd", "there is no systemctl", hint="such a node is supervised instead") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise Refused("systemd", f"{' '.join(command[:2])} failed with {done.returncode}", said)
    return done.stdout.decode(errors="replace")
