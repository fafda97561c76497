# SPDX-License-Identifier: Apache-2.0
"""One node: its disk, its root, its first process; commands in it, its death and its next start.

Edge: starts processes, mounts; needs root.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.ground import Ground, LabError, do, group, kill_group, only_child, pids, remove_group
from lab.places import FOLDER, HOME, OPERATOR, OPERATOR_ID, STORE, Cabling, HostKind
from lab.seed import ENGINE, write_fakes, write_seed
from support.cli import CHECKOUT, Ran

DISK = "6G"
SECONDS = 60.0
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

# Becomes the first process of a node: its root is this machine's below a disk of its own, where the seed lies at first.
# Whatever cleans up in a node must find nothing of this machine: /tmp, /var/tmp, /run and /dev are its own.
_BOOT = """
set -eu
mount --make-rprivate /
mkdir -p disk m
mount -t ext4 -o loop,noatime disk.img disk
mkdir -p disk/docker disk/work
[ -d disk/root ] || cp -a seed disk/root
R=$PWD/m
mount -t overlay overlay -o "lowerdir=/,upperdir=$PWD/disk/root,workdir=$PWD/disk/work" "$R"
hostname "$NAME"
mount -t proc proc "$R/proc"
mount -t sysfs sysfs "$R/sys"
mount -t overlay overlay -o "ro,lowerdir=$PWD/fakes/class:$R/sys/class" "$R/sys/class"
mount -t cgroup2 cgroup2 "$R/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$R/run"
mount -t tmpfs -o mode=1777 tmpfs "$R/tmp"
mount -t tmpfs -o mode=1777 tmpfs "$R/var/tmp"
mount -t tmpfs -o mode=755 tmpfs "$R/dev"
for one in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do mknod -m 666 "$R/dev/${one% *}" c 1 "${one#* }"; done
mknod -m 666 "$R/dev/tty" c 5 0
ln -s /proc/self/fd "$R/dev/fd"
for one in "stdin 0" "stdout 1" "stderr 2"; do ln -s "/proc/self/fd/${one#* }" "$R/dev/${one% *}"; done
mkdir "$R/dev/pts" "$R/dev/shm" "$R/dev/mqueue"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$R/dev/pts"
ln -s pts/ptmx "$R/dev/ptmx"
mount -t tmpfs -o mode=1777 tmpfs "$R/dev/shm"
mount -t mqueue mqueue "$R/dev/mqueue"
mount --bind disk/docker "$R/var/lib/docker"
mount --bind fakes/meminfo "$R/proc/meminfo"
mount --bind fakes/boot_id "$R/proc/sys/kernel/random/boot_id"
while read -r source target; do
  mkdir -p "$R$target"
  mount --bind "$source" "$R$target"
  mount -o remount,bind,ro "$R$target"
  # The operator is nobody here: what is above a place must let them through.
  while [ "$target" != / ]; do target=$(dirname "$target"); chmod o+x "$R$target"; done
done <binds
if [ -n "$STORE" ]; then
  if [ ! -d disk/store ]; then
    mkdir -p disk/store/u disk/store/w
    cp derive.sqlite disk/store/u/
    for one in wal shm; do mknod "disk/store/u/derive.sqlite-$one" c 0 0; done
  fi
  mount -t overlay overlay -o "lowerdir=$STORE,upperdir=$PWD/disk/store/u,workdir=$PWD/disk/store/w" "$R$STORE_THERE"
  # What it writes into is the operator's; what is there already may be root's.
  chown "$OWNER:$OWNER" "$R$STORE_THERE" "$R$STORE_THERE"/* "$R$STORE_THERE"/blobs/sha256 "$R$STORE_THERE"/trees/*/
fi
mkdir -p "$R/.old"
cd "$R"
pivot_root . .old
umount -l /.old
rmdir /.old
exec </dev/null >/dev/null 2>&1
"""
_INIT = {
    "systemd": 'exec env -i container=lab "PATH=$PATH" /lib/systemd/systemd --system --unit=lab.target',
    "tini": 'exec env -i "PATH=$PATH" tini -g -- /etc/lab/start',
}


@dataclass(slots=True)
class Host:
    """A node; ``first`` is its first process as this machine counts, None while it has no power."""

    ground: Ground
    name: str
    kind: HostKind
    store: Path | None = None
    first: int | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        """Where its disk, its seed and its fakes lie on this machine."""
        return FOLDER / self.name

    @property
    def root(self) -> Path:
        """Its root, as this machine sees it while the node runs."""
        if self.first is None:
            raise LabError(f"{self.name} has no power")
        return Path("/proc", str(self.first), "root")

    def prepare(self, cabling: Cabling, keys: Path, engine: Path) -> None:
        """Write its files and its empty disk."""
        self.folder.mkdir(mode=0o711)
        write_seed(self.folder / "seed", self.name, cabling, self.kind, keys)
        write_fakes(self.folder / "fakes", self.name, cabling)
        places = {engine: ENGINE, CHECKOUT: str(CHECKOUT)}
        places |= {
            Path(one): one for one in (sys.prefix, sys.base_prefix) if not one.startswith(("/usr", str(CHECKOUT)))
        }
        (self.folder / "binds").write_text("".join(f"{source} {target}\n" for source, target in places.items()))
        if self.store is not None:
            _copy_database(self.store, self.folder)
        disk = self.folder / "disk.img"
        do(["truncate", "--size", DISK, str(disk)])
        do(["mkfs.ext4", "-q", "-E", "lazy_itable_init=1,nodiscard", "-O", "^has_journal", str(disk)])

    def start(self) -> None:
        """Give it power, and do not wait for it."""
        (self.folder / "fakes/boot_id").write_text(f"{uuid.uuid4()}\n")
        group(self.name).mkdir(exist_ok=True)
        join = f'echo 0 >{shlex.quote(str(group(self.name) / "cgroup.procs"))}; cd {self.folder}; exec "$@"'
        unshare = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--cgroup", "--fork", "--kill-child=KILL")
        settings = {
            "NAME": self.name,
            "PATH": PATH,
            "STORE": str(self.store or ""),
            "STORE_THERE": str(STORE),
            "OWNER": str(OPERATOR_ID),
        }
        with (self.folder / "boot.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.ground.inside(
                    "sh", "-c", join, "sh", *unshare, "sh", "-c", _BOOT + _INIT[self.kind.init],
                    network=self.name,
                ),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=settings, start_new_session=True,
            )  # fmt: skip

    def wait(self) -> None:
        """Wait until it can be logged in to and its engine answers.

        Raises:
            LabError: with what it said, when it does not come up.
        """
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if self.first is None:
                self.first = self.found()
            if self.first is not None and self._answers():
                return
            time.sleep(0.02)
        raise LabError(f"{self.name} did not come up in {SECONDS:.0f} s: {(self.folder / 'boot.log').read_text()}")

    def found(self) -> int | None:
        """Return its first process, or None where it has none, or is not so far."""
        for pid in pids(group(self.name)):
            with contextlib.suppress(OSError):
                status = Path("/proc", str(pid), "status").read_text()
                inner = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
                program = Path("/proc", str(pid), "exe").readlink().name
                if len(inner) == 3 and inner[-1] == "1" and program in {"systemd", "tini"}:
                    return pid
        return None

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            engine = probe.connect_ex(str(self.root / "run/docker.sock")) == 0
        return engine and (self.root / "run/sshd.pid").exists()

    def kill(self) -> None:
        """Take its power away at once."""
        kill_group(group(self.name))
        remove_group(group(self.name))
        self.ended()

    def ended(self) -> None:
        """Know that its processes are gone."""
        if self.process is not None:
            self.process.wait(timeout=60)
        self.first = self.process = None

    def inside(
        self,
        argv: Sequence[str],
        *,
        user: str = OPERATOR,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Return the argv that runs a command in it as a user who has logged in."""
        if self.first is None:
            raise LabError(f"{self.name} has no power")
        home = Path("/root") if user == "root" else HOME
        there = {"HOME": str(home), "USER": user, "LOGNAME": user, "PATH": PATH, "LANG": "C.UTF-8", **(env or {})}
        return [
            "nsenter", f"--target={self.first}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root",
            f"--wd={self.root}{cwd or home}", "--",
            "setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--reset-env", "--",
            "env", "-i", *(f"{key}={value}" for key, value in there.items()), *argv,
        ]  # fmt: skip

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = OPERATOR,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = 300,
    ) -> Ran:
        """Run a command in it, and say how that ended."""
        command = self.inside(argv, user=user, cwd=cwd, env=env)
        done = subprocess.run(command, input=stdin.encode(), capture_output=True, timeout=timeout_s, check=False)
        return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


@dataclass(slots=True)
class Running:
    """A command that goes on in a node, beside this program."""

    process: subprocess.Popen[bytes]

    def signal(self, number: signal.Signals) -> None:
        """Send the command itself a signal: what entered the node's namespaces is another process."""
        os.kill(only_child(self.process.pid), number)


def _copy_database(store: Path, folder: Path) -> None:
    import sqlite3

    source, copy = sqlite3.connect(store / "derive.sqlite"), sqlite3.connect(folder / "derive.sqlite")
    source.backup(copy)  # whole, also while another process writes to it
    source.close()
    copy.close()
