# SPDX-License-Identifier: Apache-2.0
"""Private Docker engines as builders of a client of their own, and small scripts run by them and by bubblewrap.

Edge: the file system, processes, Docker engines.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from derive.build.builders.script import run_step
from derive.build.context import Context, Source, StepExecutor
from derive.build.fetching import StoreFetch
from derive.canonical import Digest
from derive.derivations.model import ResolvedDerivation, TreeOutput
from derive.sandbox.probe import find_sandbox
from derive.sandbox.references import Allowance
from derive.sandbox.request import Command, Script
from derive.store.local import LocalStore
from derive.trees.listing import DIRECTORY, Listing, Symlink
from derive.trees.pack import Member, NewFile, add_members
from speed.private_docker import default_binaries
from support.docker_engine import DockerEngine
from support.require import skip_or_fail

BUSYBOX = Path("/bin/busybox")
APPLETS = (
    *("[", "cat", "chmod", "cut", "date", "env", "find", "grep", "head", "hostname", "id", "ln", "ls", "mkdir"),
    *("mkfifo", "nc", "od", "printf", "ps", "sed", "seq", "sh", "sleep", "sort", "stat", "touch", "true", "wc", "yes"),
    *("kill", "dd", "umask", "wget"),
)


@dataclass(frozen=True, slots=True)
class Client:
    """A client of Docker with settings of its own; each engine that it knows is a builder by that name."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What commands run with: no engine but those that were added."""
        own = {key: value for key, value in os.environ.items() if not key.startswith(("DOCKER_", "BUILDX_"))}
        path = f"{default_binaries().absolute() / 'bin'}:{os.environ['PATH']}"
        return {**own, "PATH": path, "DOCKER_CONFIG": str(self.folder), "HOME": str(self.folder)}

    @contextlib.contextmanager
    def altering(self, what: str) -> Iterator[None]:
        """Have every image that is built come back another one; ``what`` is as in altering_buildx.py."""
        plugin = self.folder / "cli-plugins" / "docker-buildx"
        real = plugin.readlink()
        words = [sys.executable, str(Path(__file__).with_name("altering_buildx.py")), str(real), what]
        plugin.unlink()
        plugin.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        plugin.chmod(0o755)
        try:
            yield
        finally:
            plugin.unlink()
            plugin.symlink_to(real)

    def add(self, name: str, url: str) -> None:
        """Make an engine known under a name."""
        command = ["docker", "context", "create", name, "--docker", f"host={url}"]
        subprocess.run(command, env=self.environment, check=True, capture_output=True)

    @contextlib.contextmanager
    def standing(self, name: str, engine: str) -> Iterator[None]:
        """Make the BuildKit of an engine that is known a builder of the driver ``remote``, by a socket of its own."""
        words = ["docker", "--context", engine, "buildx", "dial-stdio"]
        # Before anything listens: else this waits for as long as a builder may take to start.
        create = ["docker", "buildx", "create", "--name", name, "--driver", "remote", f"unix://{self.folder / name}"]
        subprocess.run(create, env=self.environment, check=True, capture_output=True)
        with contextlib.ExitStack() as stack, socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.folder / name))
            listening.listen()

            def serve() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        taken, _ = listening.accept()
                        with taken:
                            asked = subprocess.Popen(
                                words,
                                env=self.environment,
                                stdin=taken.fileno(),
                                stdout=taken.fileno(),
                                stderr=subprocess.DEVNULL,
                            )
                        stack.callback(asked.wait)
                        stack.callback(asked.kill)

            serving = threading.Thread(target=serve, daemon=True)
            serving.start()
            yield
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()


@contextlib.contextmanager
def client(folder: Path) -> Iterator[Client]:
    """Make a client, and be it: what this process starts meanwhile uses it."""
    buildx = default_binaries().absolute() / "bin" / "docker-buildx"
    if not buildx.exists():
        skip_or_fail(f"no docker-buildx in {default_binaries()}")
    plugins = folder / "cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-buildx").symlink_to(buildx.resolve())
    found = Client(folder)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("DOCKER_", "BUILDX_"))]:
            patch.delenv(name)
        for name in ("PATH", "DOCKER_CONFIG"):
            patch.setenv(name, found.environment[name])
        yield found


def daemon_of(engine: DockerEngine) -> int:
    """Return the process of an engine's daemon, as this machine numbers it."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                arguments = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if arguments[0].endswith(b"dockerd") and f"--config-file={engine.folder}/daemon.json".encode() in arguments:
                return int(process.name)
    raise AssertionError("no daemon")


@dataclass(slots=True)
class Steps:
    """Runs commands over a root, as ``script`` does; ``lines``, ``worker`` and ``log`` are those of the last run.

    ``heard`` is told each piece of the log as it comes.
    """

    store: LocalStore
    root: Digest
    lines: list[str] = field(default_factory=list)
    worker: Mapping[str, str] = field(default_factory=dict)
    log: bytes = b""
    heard: Callable[[bytes], None] = lambda _: None

    def run(
        self,
        command: str | Command,
        executor: StepExecutor | None = None,
        *,
        sources: Mapping[str, Source] | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float | None = 120,
        cancel: threading.Event | None = None,
        allow: tuple[Allowance, ...] = (),
    ) -> Listing:
        """Run it, and return its output; None is this machine's sandbox."""
        self.lines, self.worker, self.log = [], {}, b""

        def write(data: bytes) -> None:
            self.log += data
            self.heard(data)

        request = ResolvedDerivation(
            builder="script",
            version=1,
            build="linux/amd64",
            host="linux/amd64",
            arguments={},
            inputs={"root": TreeOutput(self.root)},
        )
        context = Context(
            name="it",
            labels=(),
            store=self.store,
            fetch=StoreFetch(offline=True),
            sandbox=cache(find_sandbox),
            log=self.lines.append,
            log_bytes=write,
            jobs=3,
            scratch=self.store.staging.new_path(),
            cancel=cancel or threading.Event(),
            timeout_s=timeout_s,
            executor=executor,
            ran_by=lambda worker: setattr(self, "worker", worker),
        )
        what = Script(text=command) if isinstance(command, str) else command
        return run_step(request, context, what, sources or {}, environment or {}, allowances=allow)


def busybox_root(store: LocalStore) -> Digest:
    """Add a root of busybox to a store."""
    if not BUSYBOX.exists() or shutil.which("busybox") is None:
        skip_or_fail(f"{BUSYBOX} is missing: install the package busybox-static")
    members: list[tuple[bytes, Member]] = [
        (b"usr/bin/busybox", NewFile(executable=True, chunks=[BUSYBOX.read_bytes()])),
        *((b"usr/bin/" + name.encode(), Symlink(b"busybox")) for name in APPLETS),
        (b"bin", Symlink(b"usr/bin")),
        *((name, DIRECTORY) for name in (b"build", b"dev", b"home", b"proc", b"tmp")),
        (b"etc/hosts", NewFile(executable=False, chunks=[b"127.0.0.1 localhost\n"])),
        (b"usr/share/caf\xe9", NewFile(executable=False, chunks=[b"hello\n"])),
        (b"notes", NewFile(executable=False, chunks=[b"a file at the top\n"])),
    ]
    return store.add_listing(add_members(store, members))


def tree_of(store: LocalStore, files: Mapping[bytes, bytes]) -> Digest:
    """Add a tree of plain files to a store."""
    members: list[tuple[bytes, Member]] = [
        (path, NewFile(executable=False, chunks=[data])) for path, data in files.items()
    ]
    return store.add_listing(add_members(store, members))
