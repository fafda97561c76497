# SPDX-License-Identifier: Apache-2.0
"""The effects on a service's guards where there is no systemd: armed, handed over and stopped by a supervisor.

Edge: the node: processes, control groups, files below ``/run/derive``. Runs there: Python 3.8, standard library only.

All but ``guard-place`` need root. None waits for what it has begun: ``guard-seen`` says how far it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import time
import traceback
from pathlib import Path
from typing import IO, Any

from derive.deploy.node.common import Refused, fenced
from derive.deploy.node.guarded import KILL_LIMIT_S, TICK_S, guards_of, pids_below, place_of, read_text, supervised
from derive.deploy.node.supervisor import GUARDS_LIMIT_S, Supervisor

PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENDS_S = 5.0


def guard_place(given: dict[str, Any]) -> Any:
    """Return where the engine itself stands, and which hierarchies of control groups there are."""
    path = str(given["engine"])
    with socket.socket(socket.AF_UNIX) as peer:
        try:
            peer.connect(path)
        except OSError as error:
            message = f"no container engine listens at {path}: {(error.strerror or '').lower()}"
            raise Refused("no-engine", message, hint="start it, and see its log") from None
        pid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    groups = read_text(Path(f"/proc/{pid}/cgroup")) or read_text(Path("/proc/self/cgroup"))
    return {"pid": pid, "groups": groups, "mounts": read_text(Path("/proc/self/mountinfo"))}


def guard_arm(given: dict[str, Any]) -> Any:
    """Start a supervisor, which starts the guard of the start; one that has done so for this launch is kept."""
    with fenced(given):
        place = place_of(given["service"])
        place.mkdir(parents=True, exist_ok=True)
        lock = _lock_soon(place)
        if lock is None:
            return _ask({"word": "arm", "service": given["service"], "launch": given["launch"]})
        if any(pids_below(Path(given["group"]))):
            message = f"something runs in the control group that is to be guarded: {given['group']}"
            raise Refused("guard", message, hint="stop it first: derive stop --apply")
        _end_guards(given["service"])
        for left in ("supervisor.sock", "supervised.json"):
            with contextlib.suppress(FileNotFoundError):
                (place / left).unlink()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(place / "supervisor.sock"))
        (place / "supervisor.sock").chmod(0o600)
        listener.listen(8)
        if os.fork() == 0:
            _supervise(given, place, listener, lock)
        listener.close()
        lock.close()
        return {"state": "arming"}


def guard_start(given: dict[str, Any]) -> Any:
    """Let the supervisor start the container."""
    with fenced(given):
        return _ask({"word": "start", "service": given["service"], "launch": given["launch"]})


def guard_steady(given: dict[str, Any]) -> Any:
    """Let the supervisor hand over to the steady guard."""
    with fenced(given):
        return _ask({"word": "steady", "service": given["service"], "launch": given["launch"]})


def guard_stop(given: dict[str, Any]) -> Any:
    """Have the container stopped, and its guards after it, by the supervisor if there is one."""
    service, seconds = str(given["service"]), int(given["seconds"])
    with fenced(given):
        if _is_alive(place_of(service)) and not _has_ended(place_of(service)):
            return _ask({"word": "stop", "service": service, "seconds": seconds})
        _set_environment(given)
        words = ["docker", "stop", "--time", str(seconds), service]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds + KILL_LIMIT_S)
        except subprocess.TimeoutExpired:
            hint = "see its log, on the node"
            raise Refused("guard", f"the engine did not stop {service} in time", hint=hint) from None
        if done.returncode != 0 and "No such container" not in done.stderr:
            raise Refused("guard", f"docker stop {service} failed", done.stderr.strip().splitlines()[-3:])
        _end_guards(service)
        return {"state": "ended"}


def _lock(place: Path) -> IO[str] | None:
    """Return the lock that a supervisor holds for as long as it lives; None where one holds it."""
    lock = (place / "supervisor.lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def _lock_soon(place: Path) -> IO[str] | None:
    """Return the lock; a supervisor that has ended holds it, and can be reached, for a moment longer."""
    until = time.monotonic() + _ENDS_S
    while True:
        lock = _lock(place)
        if lock is not None or not _has_ended(place) or time.monotonic() > until:
            return lock
        time.sleep(TICK_S)


def _has_ended(place: Path) -> bool:
    known = supervised(place)
    return known is not None and known["state"] == "ended"


def _supervise(given: dict[str, Any], place: Path, listener: socket.socket, lock: IO[str]) -> None:
    """Let go of whoever started this process, and supervise; this does not return."""
    try:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        os.chdir("/")
        os.umask(0o022)
        _set_environment(given)
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(str(place / "supervisor.log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for number, file in enumerate((nothing, log, log)):
            os.dup2(file, number)
        # Among what is open is the lock of the site's folder, which would never be free again.
        kept = {0, 1, 2, listener.fileno(), lock.fileno()}
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in kept:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        Supervisor(given, listener, lock).run()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - nothing above may run twice
        traceback.print_exc()
        os._exit(1)


def _set_environment(given: dict[str, Any]) -> None:
    """Let children find Docker's client, and that its engine."""
    os.environ["PATH"] = ":".join(filter(None, (os.environ.get("PATH"), PROGRAMS)))
    os.environ["DOCKER_HOST"] = f"unix://{given['engine']}"


def _ask(asked: dict[str, Any]) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10.0)
        try:
            peer.connect(str(place_of(asked["service"]) / "supervisor.sock"))
            peer.sendall(json.dumps(asked).encode())
            answer = json.loads(peer.recv(65536).decode())
        except (OSError, ValueError) as error:
            hint = "arm its guard first: derive deploy does"
            raise Refused("no-supervisor", f"no supervisor of {asked['service']} answers", [str(error)], hint) from None
    if "refused" in answer:
        raise Refused("guard", answer["refused"])
    return dict(answer)


def _end_guards(service: str) -> None:
    """End guards whose supervisor is no more: nothing is left for them to guard."""
    until = time.monotonic() + GUARDS_LIMIT_S
    while time.monotonic() < until:
        left = guards_of(service)
        if not left:
            return
        for pid in left.values():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        time.sleep(TICK_S)
    raise Refused("guard", f"a guard of {service} does not end")


def _is_alive(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as peer:
        return peer.connect_ex(str(place / "supervisor.sock")) == 0
