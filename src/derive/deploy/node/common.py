# SPDX-License-Identifier: Apache-2.0
"""What effects on a node share: refusals, files that are written whole or not at all, locks, and the lease they show.

Edge: the node's file system and clock. Runs on the node: Python 3.8, standard library only.

Two locks, each that of an open folder, so that no file of a lock is left. The site's folder is locked by whoever takes
a lease, alone, and by every change of the node, together: a lease is never taken in the middle of a change. A service's
folder is locked by whoever changes its files.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from typing import Any

FRESH = ".new-"
"""What begins the name of a file that is not in its place yet."""
ODD = ".odd-"
"""What follows the name of something that stood in the way and was kept, before its number."""
_LARGEST = 16 << 20
"""Bytes of a document; none of ours comes near."""
WAIT_S = 20.0
_POLL_S = 0.02
_HEX = re.compile(r"[0-9a-f]{64}")
_SERVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class Refused(Exception):
    """An effect that was not done: ``kind`` is a word for programs, the rest is for people, ``data`` goes with it."""

    def __init__(
        self,
        kind: str,
        message: str,
        detail: Sequence[str] = (),
        hint: str | None = None,
        data: Any = None,
    ) -> None:
        super().__init__(message)
        self.answer = {"kind": kind, "message": message, "detail": list(detail), "hint": hint, "data": data}


def write_whole(path: str, data: bytes, mode: int = 0o644) -> None:
    """Write a file beside the one that is meant, bring it to the disk, and rename it into its place.

    A folder that is there is none of ours, and is moved away.
    """
    fresh = os.path.join(os.path.dirname(path), f"{FRESH}{os.path.basename(path)}-{os.getpid()}")
    try:
        write_synced(fresh, data, mode)
        if is_folder(path):
            move_away(path)
        os.rename(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise
    sync_folder(os.path.dirname(path))


def move_away(path: str) -> None:
    """Keep something under another name that no program looks at: what it is, nobody here can know."""
    number = 1
    while os.path.lexists(f"{path}{ODD}{number}"):
        number += 1
    os.rename(path, f"{path}{ODD}{number}")


def write_synced(path: str, data: bytes, mode: int = 0o644) -> None:
    """Write a new file and bring it to the disk; an earlier one of that name, which somebody left, is replaced."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def sync_folder(path: str) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(path: str) -> None:
    """Make a folder and those above it, each brought to the disk."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    make_folders(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o755)
    sync_folder(above)


def document(value: Any) -> bytes:
    """Write a document as canonical JSON; its keys are ASCII."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode("utf-8")


def read_document(path: str) -> Any:
    """Return a JSON document, or None where there is no such file; ValueError where it is none."""
    try:
        # Not to be held up by what is no file, such as a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no file")
        try:
            return json.loads(file.read(_LARGEST).decode("utf-8"))
        except RecursionError:
            raise ValueError("nested too deeply") from None


@contextlib.contextmanager
def locked(folder: str, exclusive: bool, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the lock of a folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        hint = "it is made when the lease is taken: derive deploy RELEASE --shape S --apply"
        raise Refused("no-folder", f"no folder {folder}", hint=hint) from None
    try:
        _lock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, folder, wait_s)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, how: int, folder: str, wait_s: float) -> None:
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                message = f"{folder} is locked: a change of this node is under way"
                raise Refused("busy", message, hint="wait until it has ended, and ask again") from None
            time.sleep(_POLL_S)
        else:
            return


LEASE_FILE = "lease.json"
LEASE_S = 60
"""How long a lease holds that does not say for how long it was granted."""
_SKEW_S = 5
_OWNER = (
    ("user", str),
    ("host", str),
    ("boot-id", str),
    ("pid-namespace", str),
    ("pid", int),
    ("started", int),
    ("what", str),
)


def read_lease(folder: str) -> dict[str, Any] | None:
    """Return the lease as it lies there, with ``left_s`` by this machine's clocks; None where there is none.

    One that cannot be read is refused as ``lease-damaged``; how long it holds all the same is :func:`damaged_left_s`.
    """
    path = os.path.join(folder, LEASE_FILE)
    try:
        found = read_document(path)
        return None if found is None else _lease(found)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)
    hint = "the next deploy takes it over: derive stop --apply, or derive deploy"
    raise Refused("lease-damaged", f"{path} is no lease", [why], hint) from None


def _lease(found: Any) -> dict[str, Any]:
    _require(found, "nonce", str)
    _require(found, "boot-id", str)
    _require(found, "owner", dict)
    for key, kind in _OWNER:
        _require(found["owner"], key, kind)
    for key in ("taken_s", "expires_s", "expires-boot_ms"):
        _require(found, key, int)
    lease = dict(found)
    lease["left_s"] = _left_s(lease)
    return lease


def _require(found: Any, key: str, kind: type) -> None:
    if not isinstance(found[key], kind) or (kind is int and not 0 <= found[key] < 2**53):
        raise ValueError(f"{key} is {found[key]!r}"[:120])


def _left_s(lease: dict[str, Any]) -> int:
    granted: Any = lease.get("seconds", LEASE_S)
    if not isinstance(granted, int) or not 0 <= granted < 2**31:
        granted = LEASE_S
    # The clock of the boot only goes forward, whatever is done to the time of day; it means nothing after a reboot.
    # Whoever is still at work then renews the lease, so that it holds no longer than it was granted for.
    if lease["boot-id"] != boot_id():
        left = min(lease["expires_s"] - int(time.time()), granted - boot_ms() // 1000)
    else:
        left = (lease["expires-boot_ms"] - boot_ms() + 999) // 1000
        if left > granted:
            raise ValueError(f"it would hold for {left} s, and was granted for {granted} s")
    return int(max(0, left))


def damaged_left_s(folder: str) -> int:
    """Return how long a lease holds that cannot be read: as long after it was written as one that is not renewed.

    Whoever holds it writes it anew well before that.
    """
    try:
        age = time.time() - os.lstat(os.path.join(folder, LEASE_FILE)).st_mtime
    except OSError:
        return 0
    # Written in the future: the clock was set back since, and nobody has renewed it.
    return max(0, int(LEASE_S - age)) if age > -_SKEW_S else 0


def boot_ms() -> int:
    """Return the milliseconds since this machine was booted, sleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def boot_id() -> str:
    """Return what this boot of the machine is known by."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


@contextlib.contextmanager
def fenced(given: dict[str, Any], service: bool = False) -> Iterator[str]:
    """Hold the locks of a change by the lease that is shown; yields the site's folder, or that of the service.

    With ``service`` the service's folder is made where there is none.
    """
    folder = folder_of(given)
    with locked(folder, exclusive=False):
        lease = read_lease(folder)
        if lease is None or lease["nonce"] != given["lease"]:
            raise Refused("fenced", whose(lease), hint="derive status says what runs; then deploy again", data=lease)
        if not service:
            yield folder
            return
        own = os.path.join(folder, service_name(given["service"]))
        make_folders(own)
        with locked(own, exclusive=True):
            yield own


def whose(lease: dict[str, Any] | None) -> str:
    """Say to whom the lease belongs that was shown to be another's."""
    if lease is None:
        return "the lease is no longer held, and nothing was changed"
    owner = lease["owner"]
    return "the lease is now that of {}@{} ({}), and nothing was changed".format(
        owner["user"],
        owner["host"],
        owner["what"],
    )


def folder_of(given: dict[str, Any]) -> str:
    """Return the site's folder, which is an absolute path without detours."""
    folder = given["folder"]
    if not folder.startswith("/") or os.path.normpath(folder) != folder or folder == "/":
        raise Refused("wrong", f"not an absolute path: {folder!r}")
    return str(folder)


def service_name(text: str) -> str:
    """Return a service's name, which can be no path."""
    if not _SERVICE.fullmatch(text):
        raise Refused("wrong", f"not the name of a service: {text!r}")
    return text


def launch_hex(text: str) -> str:
    """Return a launch digest's digits, which can be no path."""
    if not _HEX.fullmatch(text):
        raise Refused("wrong", f"not the 64 digits of a launch digest: {text!r}")
    return text


def below(folder: str, path: str) -> str:
    """Return the full path of something below a folder, given as a relative path without detours."""
    parts = path.split("/")
    if not path or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise Refused("wrong", f"not a path below a folder: {path!r}")
    return os.path.join(folder, path)


def is_folder(path: str) -> bool:
    """Say whether a path is a folder itself, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def names_in(folder: str) -> list[str]:
    """Return the sorted names in a folder; none where there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
