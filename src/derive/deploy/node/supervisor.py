# SPDX-License-Identifier: Apache-2.0
"""What takes the place of systemd's units where there is no systemd: one service's guards and its container.

Edge: processes, control groups, files below ``/run/derive``; needs root. Runs on the node: Python 3.8, standard library
only.

A container is started only below a guard that has had a good first look, and the end of a guard that is not the
container's own ends the container. Should the supervisor itself be killed, a second process, which waits for nothing
else, ends the container.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import IO, Any

from derive.deploy.node.common import Refused
from derive.deploy.node.guarded import (
    BYE,
    KILL_LIMIT_S,
    TICK_S,
    WORDS_KEPT,
    Guard,
    hold_memory,
    kill_group,
    ordinary,
    pids_below,
    place_of,
    read_text,
    spared,
    started_at,
    witness,
    write_whole,
)

START_LIMIT_S = 300.0  # an engine may have to lay the image's layers first
APPEAR_LIMIT_S = 3.0  # until a started container is seen in the group at which its guard looks
HAND_OVER_LIMIT_S = 30.0
GUARDS_LIMIT_S = 5.0  # how long guards may take to see that the container has ended
AGAIN_S = 2.0

_STARTED = ("starting", "running", "handing-over", "steady")


class Supervisor:
    """One service's guards and container. ``state`` is written to a file whenever it changes."""

    def __init__(self, job: dict[str, Any], listener: socket.socket, lock: IO[str]) -> None:
        self.job = job
        self.place = place_of(job["service"])
        self.group = Path(job["group"])
        self.listener = listener
        self.lock = lock
        self.state = ""
        self.since = 0.0
        self.why: str | None = None
        self.container_code: int | None = None
        self.guards: dict[str, Guard] = {}
        self.runner: subprocess.Popen[bytes] | None = None
        self.waiter: subprocess.Popen[bytes] | None = None
        self.waiting_again = 0.0
        self.has_ended = False
        self.seen_in_group = False
        self.stop_wanted: int | None = None
        self.killed_at = 0.0
        self.is_told = False
        self.witness = 0
        self.to_witness = -1

    # Life

    def run(self) -> None:
        """Supervise until all has ended."""
        spared()
        hold_memory()
        wake, woken = socket.socketpair()
        for end in (wake, woken, self.listener):
            end.setblocking(False)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self.told_to_stop)
        self.have_witness()
        for folder in self.job["folders"]:
            Path(folder).mkdir(parents=True, exist_ok=True)
        if "startup" in self.job["guards"]:
            self.guard("startup")
        self.become("arming")
        while self.state != "ended":
            if self.is_told:
                self.ask_stop(int(self.job["stop_seconds"]))
            readable, _, _ = select.select([self.listener, wake], [], [], TICK_S)
            if wake in readable:
                wake.recv(512)
            if self.listener in readable:
                self.hear()
            self.tick()
        os.write(self.to_witness, BYE)

    def told_to_stop(self, *_: object) -> None:
        """Remember a signal: what it asks for is done between two looks."""
        self.is_told = True

    def become(self, state: str, why: str | None = None) -> None:
        """Go over to a state; the first reason that is given stays."""
        self.state, self.since, self.why = state, time.monotonic(), self.why or why
        self.note()

    def note(self) -> None:
        """Write down how things are."""
        guards = {phase: {"pid": guard.process.pid, "code": guard.code} for phase, guard in self.guards.items()}
        said = {"service": self.job["service"], "launch": self.job["launch"], "state": self.state, "why": self.why}
        more: dict[str, Any] = {
            "pid": os.getpid(),
            "group": str(self.group),
            "container_code": self.container_code,
            "guards": guards,
        }
        more.update(started=started_at(os.getpid()), since_ns=int(self.since * 1e9))
        write_whole(self.place / "supervised.json", json.dumps({"derive": "supervised/1", **said, **more}))

    def for_s(self) -> float:
        """Return for how long the state has lasted."""
        return time.monotonic() - self.since

    def guard(self, phase: str) -> None:
        """Start the guard of a phase."""
        self.guards[phase] = Guard(phase, self.job["guards"][phase], self.place)

    def child(self, *words: str, out: int | IO[bytes] = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start a program that is none of the guards."""
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT if out is not subprocess.DEVNULL else subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=ordinary,  # noqa: PLW1509 - there is one thread
        )

    def have_witness(self) -> None:
        """Start the process that ends the container should this one be killed."""
        if self.to_witness >= 0:
            os.close(self.to_witness)
        hears, self.to_witness = os.pipe()
        self.witness = os.fork()
        if self.witness == 0:
            # What is open here would hold the lock, and the pipe's other end, beyond the supervisor's own end.
            os.close(self.to_witness)
            self.listener.close()
            self.lock.close()
            witness(self.job["service"], self.group, hears)
        os.close(hears)

    # What is asked

    def hear(self) -> None:
        """Take one request, and answer it at once: what it leads to is written down as it happens."""
        with contextlib.suppress(OSError, ValueError):
            peer, _ = self.listener.accept()
            with peer:
                peer.settimeout(1.0)
                asked = json.loads(peer.recv(4096).decode())
                try:
                    self.asked(str(asked["word"]), asked)
                    answer: dict[str, Any] = {"state": self.state}
                except Refused as refused:
                    answer = {"refused": str(refused)}
                peer.sendall(json.dumps(answer).encode())

    def asked(self, word: str, asked: dict[str, Any]) -> None:
        """Do what was asked, or begin it; asked again, nothing is done twice."""
        if word == "stop":
            self.ask_stop(int(asked["seconds"]))
        elif asked["launch"] != self.job["launch"]:
            raise Refused(
                "guard", f"another launch is supervised: expected {asked['launch']}, got {self.job['launch']}"
            )
        elif word == "arm":
            if self.state not in ("arming", "armed"):
                raise Refused("guard", f"the container is {self.state}: it is stopped before its guard is armed")
        elif word == "start":
            if self.state not in ("armed", *_STARTED):
                raise Refused("guard", f"no guard is at work, and so no container starts: {self.state}")
            if self.state == "armed":
                self.start()
        elif word == "steady":
            if self.state not in ("running", "handing-over", "steady"):
                raise Refused("guard", f"there is no container to be guarded: {self.state}")
            if self.state == "running":
                self.hand_over()
        else:
            raise Refused("guard", f"no such word: {word}")

    def start(self) -> None:
        """Start the container by its script, once what an earlier one left is removed."""
        script = 'docker rm "$1" >/dev/null 2>&1; exec bash "$2" --detach'
        with (self.place / "run.log").open("wb") as log:
            self.runner = self.child("bash", "-c", script, "bash", self.job["service"], self.job["run"], out=log)
        self.become("starting")

    def hand_over(self) -> None:
        """Begin the steady guard; the one of the start goes on until it says that it guards."""
        if "steady" in self.job["guards"]:
            self.guard("steady")
            self.become("handing-over")
        else:
            self.become("steady")

    def ask_stop(self, seconds: int) -> None:
        """Stop the container if there is one; its guards end after it."""
        if self.state in ("arming", "armed"):
            self.become("ending", "stopped before there was a container")
            self.has_ended = True
        elif self.state == "starting":
            self.stop_wanted = seconds
        elif self.state not in ("stopping", "killing", "ending", "ended"):
            self.job["stop_seconds"] = seconds
            self.child("docker", "stop", "--time", str(seconds), self.job["service"])
            self.become("stopping", "stopped")

    # What happens

    def tick(self) -> None:
        """Look at every child, then do what the state calls for."""
        for guard in list(self.guards.values()):
            if guard.code is None and guard.process.poll() is not None:
                guard.code = guard.process.returncode
                self.note()
                self.guard_ended(guard)
        self.look_at_runner()
        self.look_at_waiter()
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(self.witness, os.WNOHANG)[0] == self.witness:
                self.have_witness()
        step = {
            "arming": self.arming,
            "running": self.running,
            "steady": self.guarded,
            "handing-over": self.handing_over,
            "stopping": self.stopping,
            "killing": self.killing,
            "ending": self.ending,
        }.get(self.state)
        if step is not None:
            step()

    def guard_ended(self, guard: Guard) -> None:
        """Judge the end of a guard: that of a container, one that was asked for, or a reason to end the container."""
        if guard.told or self.state in ("killing", "ending", "ended"):
            return
        if self.state in ("arming", "armed"):
            self.has_ended = True
            self.become("ending", guard.words())
        elif guard.code != 0 or any(pids_below(self.group)) or self.state == "starting":
            self.kill(guard.words())

    def look_at_runner(self) -> None:
        """See whether the script has started the container."""
        if self.runner is None:
            return
        if self.runner.poll() is None:
            if self.state == "starting" and self.for_s() > START_LIMIT_S:
                self.kill(f"the engine did not start the container within {START_LIMIT_S:.0f} s")
            return
        code, self.runner = self.runner.returncode, None
        said = read_text(self.place / "run.log").strip().splitlines()[-WORDS_KEPT:]
        if self.state == "killing":
            self.wait()
        elif code != 0:
            self.has_ended = True
            self.become("ending", "; ".join(["the container did not start", *said]))
        else:
            (self.place / "started").touch()
            self.wait()
            self.become("running")
            if self.stop_wanted is not None:
                self.ask_stop(self.stop_wanted)

    def wait(self) -> None:
        """Have the engine say when the container has ended."""
        with (self.place / "wait.log").open("wb") as log:
            self.waiter = self.child("docker", "wait", self.job["service"], out=log)

    def look_at_waiter(self) -> None:
        """See whether the container has ended; an engine that does not answer is asked again, and the guards guard."""
        if self.waiter is None:
            if self.waiting_again and time.monotonic() > self.waiting_again:
                self.waiting_again = 0.0
                self.wait()
            return
        if self.waiter.poll() is None:
            return
        said = read_text(self.place / "wait.log").strip()
        good, self.waiter = self.waiter.returncode == 0, None
        if not good and "No such container" not in said:
            self.waiting_again = time.monotonic() + AGAIN_S
            return
        self.has_ended = True
        self.container_code = int(said) if good and said.isdigit() else None
        if self.state != "killing":
            self.become("ending", f"the container ended with {said}")
        self.note()

    def arming(self) -> None:
        """See whether the guard has had a good first look."""
        guard = self.guards.get("startup")
        if guard is None or (guard.code is None and guard.says() in ("waiting", "guarding")):
            self.become("armed")

    def running(self) -> None:
        """Make sure that the container runs in the group at which its guard looks."""
        self.guarded()
        if self.seen_in_group or not self.job["guards"]:
            return
        self.seen_in_group = any(pids_below(self.group))
        if not self.seen_in_group and self.for_s() > APPEAR_LIMIT_S and not self.has_ended:
            self.kill(f"the container does not run in the control group that is guarded: {self.group}")

    def guarded(self) -> None:
        """Make sure that a guard is left: each may have ended well as the group was empty, and it may fill again."""
        if (
            self.guards
            and all(guard.code is not None for guard in self.guards.values())
            and any(pids_below(self.group))
        ):
            self.kill("the container runs without a guard")

    def handing_over(self) -> None:
        """See whether the steady guard guards; then the one of the start is told to end."""
        first, second = self.guards.get("startup"), self.guards["steady"]
        if second.code is None and second.says() == "guarding":
            if first is None or first.code is not None:
                self.become("steady")
            elif not first.told:
                first.stop()
        elif self.for_s() > HAND_OVER_LIMIT_S:
            self.kill(f"the steady guard did not begin within {HAND_OVER_LIMIT_S:.0f} s")

    def stopping(self) -> None:
        """See whether the engine takes too long to stop the container."""
        if self.for_s() > int(self.job["stop_seconds"]) + KILL_LIMIT_S / 2:
            self.kill("the engine did not stop the container in time")

    def kill(self, why: str) -> None:
        """Begin to end the container at once: without its guard it must not run."""
        self.become("killing", why)
        self.killing()

    def killing(self) -> None:
        """Kill what is in the group, and have the engine kill what may be elsewhere, until all has ended."""
        there = kill_group(self.group)
        now = time.monotonic()
        if now > self.killed_at + AGAIN_S:
            self.killed_at = now
            self.child("docker", "kill", self.job["service"])
        if (self.has_ended and not there and self.runner is None) or self.for_s() > KILL_LIMIT_S:
            if not self.has_ended or there:
                self.why = f"{self.why}; THE CONTAINER MAY STILL RUN"
            self.become("ending")

    def ending(self) -> None:
        """Tell the guards to end once nothing is left in the group; what is left for long is killed."""
        late = self.for_s() > GUARDS_LIMIT_S
        there = kill_group(self.group) if late else any(pids_below(self.group))
        left = [guard for guard in self.guards.values() if guard.code is None]
        for guard in left:
            if not guard.told and (not there or late):
                guard.stop()
        if not left or self.for_s() > 2 * GUARDS_LIMIT_S:
            with contextlib.suppress(OSError):
                (self.place / "started").unlink()
            self.become("ended")
