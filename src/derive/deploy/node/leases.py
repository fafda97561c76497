# SPDX-License-Identifier: Apache-2.0
"""The effects on a node's lease, which is taken, renewed, freed and read, and on the site's folder, in which it lies.

Edge: the node. Runs there: Python 3.8, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import subprocess
import time
from typing import Any

from derive.deploy.node.common import (
    LEASE_FILE,
    Refused,
    boot_id,
    boot_ms,
    damaged_left_s,
    document,
    folder_of,
    locked,
    make_folders,
    read_lease,
    sync_folder,
    whose,
    write_whole,
)

TAG = "deploy-lease/1"


def folder_make(given: dict[str, Any]) -> Any:
    """Make the site's folder where there is none, and make it this user's, by sudo where it must be."""
    folder = folder_of(given)
    if os.path.isdir(folder):
        _require_own(folder)
        return {"made": False}
    try:
        make_folders(folder)
    except PermissionError:
        user = pwd.getpwuid(os.getuid()).pw_name
        command = ["sudo", "-n", "install", "-d", "-m", "0755", "-o", user, "-g", str(os.getgid()), "--", folder]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            hint = f"on the node, once: sudo install -d -o {user} {folder}"
            raise Refused("no-folder", f"{folder} cannot be made", said, hint) from None
    return {"made": True}


def _require_own(folder: str) -> None:
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        user = pwd.getpwuid(os.getuid()).pw_name
        owner = os.stat(folder).st_uid
        hint = f"on the node, once: sudo chown {user} {folder}"
        raise Refused("not-own", f"{folder} cannot be written by {user}", [f"owner     uid {owner}"], hint)


def lease_take(given: dict[str, Any]) -> Any:
    """Take the lease, or renew it where the nonce is its own; ``replaces`` names one that may be taken over.

    One that cannot be read is taken over once its holder would have renewed it.
    """
    folder = folder_of(given)
    if not os.path.isdir(folder):
        folder_make(given)
    _require_own(folder)
    with locked(folder, exclusive=True):
        held, damaged = _held(folder)
        why = _why_free(held, given) or damaged
        if why == "held":
            assert held is not None
            owner = held["owner"]
            message = "{}@{} deploys to this node: {}".format(owner["user"], owner["host"], owner["what"])
            hint = f"wait until it has ended; without a sign of it, its lease ends in {held['left_s']} s"
            raise Refused("lease-held", message, [f"process   {owner['pid']}"], hint, held)
        mine = held is not None and held["nonce"] == given["lease"]
        taken_s = held["taken_s"] if held is not None and mine else int(time.time())
        lease = _write(folder, given["lease"], given["owner"], int(given["seconds"]), taken_s)
    return {"lease": lease, "former": None if mine else held, "why": why}


def _held(folder: str) -> tuple[dict[str, Any] | None, str | None]:
    """Return the lease, and "damaged" where there is one that cannot be read and holds no more."""
    try:
        return read_lease(folder), None
    except Refused as refused:
        left = damaged_left_s(folder)
        if left:
            message = "its lease cannot be read, and may be held: {}".format(refused.answer["message"])
            hint = f"wait {left} s: if nobody has written it anew by then, it is taken over"
            raise Refused("lease-held", message, refused.answer["detail"], hint) from None
        return None, "damaged"


def _why_free(held: dict[str, Any] | None, given: dict[str, Any]) -> str | None:
    """Return why the lease may be taken from another, ``held`` where it may not, None where nobody else has it."""
    if held is None or held["nonce"] == given["lease"]:
        return None
    if held["nonce"] == given.get("replaces") or _is_gone(held):
        return "owner gone"
    return "expired" if held["left_s"] <= 0 else "held"


def _is_gone(held: dict[str, Any]) -> bool:
    """Say whether the owner ran on this very machine and does so no more."""
    owner = held["owner"]
    if owner["boot-id"] == held["boot-id"] != boot_id():
        return True  # it ran on this kernel, which has ended since
    here = (boot_id(), os.readlink("/proc/self/ns/pid"), socket.gethostname().partition(".")[0])
    if (owner["boot-id"], owner["pid-namespace"], owner["host"]) != here:
        return False
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # another user's
    try:
        with open(f"/proc/{owner['pid']}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        # It ended just now, or /proc hides the processes of others: then one of that number counts as the owner.
        return False
    return words[0] in (b"Z", b"X") or int(words[19]) != owner["started"]


def _write(folder: str, nonce: str, owner: dict[str, Any], seconds: int, taken_s: int) -> dict[str, Any]:
    lease: dict[str, Any] = {
        "derive": TAG,
        "nonce": nonce,
        "owner": owner,
        "taken_s": taken_s,
        "seconds": seconds,
        "expires_s": int(time.time()) + seconds,
        "expires-boot_ms": boot_ms() + 1000 * seconds,
        "boot-id": boot_id(),
    }
    write_whole(os.path.join(folder, LEASE_FILE), document(lease))
    lease["left_s"] = seconds
    return lease


def lease_renew(given: dict[str, Any]) -> Any:
    """Let the lease hold for longer, if it is still the one that is shown."""
    folder = folder_of(given)
    # Beside a long change, which holds the lock as well: nobody takes the lease meanwhile.
    with locked(folder, exclusive=False):
        held = read_lease(folder)
        if held is None or held["nonce"] != given["lease"]:
            hint = "derive status says what runs; then deploy again"
            raise Refused("fenced", whose(held), hint=hint, data=held)
        return {"lease": _write(folder, held["nonce"], held["owner"], int(given["seconds"]), held["taken_s"])}


def lease_free(given: dict[str, Any]) -> Any:
    """Remove the lease, if it is still the one that is shown."""
    folder = folder_of(given)
    with locked(folder, exclusive=True):
        held = read_lease(folder)
        if held is None or held["nonce"] != given["lease"]:
            return {"freed": False}
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, LEASE_FILE))
        sync_folder(folder)
    return {"freed": True}


def lease_read(given: dict[str, Any]) -> Any:
    """Return the lease as it is now, with whether its owner ran on this machine and does so no more.

    Where it cannot be read: why, and how long it holds all the same.
    """
    folder = folder_of(given)
    try:
        held = read_lease(folder)
        return {"lease": None if held is None else {**held, "is_gone": _is_gone(held)}, "damaged": None}
    except Refused as refused:
        why = "; ".join((refused.answer["message"], *refused.answer["detail"]))
        left = damaged_left_s(folder)
        return {"lease": None, "damaged": f"{why}; it may be held for {left} s more" if left else why}
