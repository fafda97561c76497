# SPDX-License-Identifier: Apache-2.0
"""A small root of busybox, and ways to run scripts in it: in this process, and as an ordinary user in another.

Edge: the file system, processes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from derive.errors import HostRefuses
from derive.sandbox.bwrap import Bubblewrap
from derive.sandbox.outcome import Flag, Outcome
from derive.sandbox.probe import find_sandbox
from derive.sandbox.request import Command, Program, RootEntry, SandboxRequest, Script, root_entries
from derive.sandbox.scratch import ScratchFolders, scratch_folders
from derive.sandbox.spec import sandbox_spec
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, Symlink
from derive.trees.materialise import materialise, remove_folder
from derive.trees.pack import Member, NewFile, add_members
from support.require import skip_or_fail

DRIVER = Path(__file__).with_name("driver.py")
NOBODY = 65534

APPLETS = (
    *("[", "cat", "chmod", "cut", "date", "echo", "env", "find", "grep", "head", "hostname", "id", "ls", "mkdir"),
    *("mkfifo", "mknod", "nc", "rm", "seq", "setsid", "sh", "sleep", "sort", "touch", "tr", "true", "uname", "wc"),
    *("yes", "test", "stat", "sync", "unshare", "mount", "chown", "ip", "dd", "kill"),
)


@dataclass(frozen=True, slots=True)
class Root:
    """The busybox root: its read-only folder, readable to everyone, and its top level."""

    folder: Path
    entries: tuple[RootEntry, ...]


@dataclass(slots=True)
class Ran:
    """What came of a run."""

    outcome: Outcome
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Box:
    """Runs things in the busybox root, in this process."""

    sandbox: Bubblewrap
    root: Root
    scratch: ScratchFolders

    def request(
        self,
        command: str | tuple[str, ...],
        *,
        inputs: Mapping[str, Path] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> SandboxRequest:
        what: Command = Script(text=command) if isinstance(command, str) else Program(argv=command)
        return SandboxRequest(
            root=os.fsencode(self.root.folder),
            root_entries=self.root.entries,
            inputs={name: os.fsencode(path) for name, path in (inputs or {}).items()},
            work=os.fsencode(self.scratch.work),
            out=os.fsencode(self.scratch.out),
            devices=None if self.scratch.devices is None else os.fsencode(self.scratch.devices),
            command=what,
            environment=environment or {},
            jobs=3,
        )

    def run(
        self,
        command: str | tuple[str, ...],
        *,
        inputs: Mapping[str, Path] | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float | None = 30,
        cancel: Flag | None = None,
        log: Callable[[bytes], None] | None = None,
    ) -> Ran:
        lines: list[str] = []
        outcome = self.sandbox.run(
            sandbox_spec(self.request(command, inputs=inputs, environment=environment)),
            log=log or (lambda line: lines.append(line.decode(errors="replace"))),
            timeout_s=timeout_s,
            cancel=cancel,
        )
        return Ran(outcome, lines)


@dataclass(frozen=True, slots=True)
class OtherEngine:
    """Runs scripts through tests/sandbox/driver.py: another process, as root or as nobody."""

    root: Root
    place: Path
    as_nobody: bool

    def start(self, script: str, *, marker: str | None = None) -> subprocess.Popen[str]:
        """With a marker, every process of the run has it among its arguments, the keeper's and bubblewrap's too."""
        command = [sys.executable, str(DRIVER)]
        if os.geteuid() == 0:
            command = [*switch_to(NOBODY if self.as_nobody else 0), *command]
        engine = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/"
        )
        assert engine.stdin is not None
        question = {"root": str(self.root.folder), "place": str(self.place), "script": script, "marker": marker}
        engine.stdin.write(json.dumps(question))
        engine.stdin.close()
        return engine

    def run(self, script: str) -> list[str]:
        """Return the script's lines, then the outcome as text."""
        with self.start(script) as engine:
            assert engine.stdout is not None
            return engine.stdout.read().splitlines()


@pytest.fixture(scope="session")
def sandbox() -> Bubblewrap:
    """The machine's bubblewrap."""
    try:
        return find_sandbox()
    except HostRefuses as error:
        skip_or_fail("\n".join([error.message, *error.detail, error.hint or ""]))


@pytest.fixture(scope="session")
def root() -> Iterator[Root]:
    """The busybox root, outside pytest's own folder, which other users cannot enter."""
    busybox = shutil.which("busybox", path="/bin:/usr/bin")
    if busybox is None or b"\x7fELF" not in Path(busybox).read_bytes()[:4]:
        skip_or_fail("the sandbox tests need the package busybox-static")
    members: list[tuple[bytes, Member]] = [
        (b"usr/bin/busybox", NewFile(executable=True, chunks=[Path(busybox).read_bytes()])),
        *((b"usr/bin/" + name.encode(), Symlink(b"busybox")) for name in APPLETS),
        (b"bin", Symlink(b"usr/bin")),
        *((name, DIRECTORY) for name in (b"build", b"dev", b"etc", b"home", b"proc", b"tmp")),
        (b"usr/share/caf\xe9", NewFile(executable=False, chunks=[b"hello\n"])),
        (b"notes", NewFile(executable=False, chunks=[b"a file at the top\n"])),
    ]
    store = MemoryStore()
    listing = add_members(store, members)
    place = Path(tempfile.mkdtemp(prefix="derive-sandbox-"))
    try:
        place.chmod(0o755)
        folder = place / "root"
        materialise(store, listing, folder)
        folder.chmod(0o555)
        yield Root(folder, root_entries(listing))
    finally:
        remove_folder(place)


@pytest.fixture
def box(sandbox: Bubblewrap, root: Root, tmp_path: Path) -> Iterator[Box]:
    """A place to run scripts in this process."""
    with scratch_folders(tmp_path) as scratch:
        yield Box(sandbox, root, scratch)


def switch_to(user: int) -> list[str]:
    """Begin a command that runs as another user, with supplementary groups, as a person's session has some."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", f"--groups=4,20,{user}"]


@pytest.fixture(scope="session")
def ordinary_user() -> bool:
    """Say whether an ordinary user must be switched to, after a look whether that one can run an engine here."""
    if os.geteuid() != 0:
        return False
    command = [*switch_to(NOBODY), sys.executable, "-c", "import derive"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if tried.returncode != 0:
        skip_or_fail(f"an ordinary user cannot run this Python or this checkout: {tried.stderr.strip()[-200:]}")
    return True


@pytest.fixture(params=["root", "ordinary"])
def engine(request: pytest.FixtureRequest, sandbox: Bubblewrap, root: Root) -> Iterator[OtherEngine]:
    """An engine in another process, started by root and by an ordinary user. The root tree belongs to this user."""
    assert sandbox.program
    ordinary = request.param == "ordinary"
    if os.geteuid() != 0 and not ordinary:
        pytest.skip("only root can try what root's engine does")
    place = Path(tempfile.mkdtemp(prefix="derive-engine-"))
    try:
        switch = ordinary and bool(request.getfixturevalue("ordinary_user"))
        if switch:
            os.chown(place, NOBODY, NOBODY)
        yield OtherEngine(root, place, as_nobody=switch)
    finally:
        remove_folder(place)


def survivors(marker: str) -> list[int]:
    """Return the processes of this machine whose arguments hold a marker."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal() or int(process.name) == os.getpid():
            continue
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if marker.encode() in arguments:
            found.append(int(process.name))
    return found


class Survivors:
    """A marker of its own for each test: the length of a sleep that nobody else sleeps."""

    def __init__(self) -> None:
        self.marker = f"9{time.monotonic_ns()}"

    def now(self) -> list[int]:
        return survivors(self.marker)

    def there_within(self, seconds: float) -> bool:
        return _holds_within(seconds, lambda: bool(self.now()))

    def gone_within(self, seconds: float) -> bool:
        return _holds_within(seconds, lambda: not self.now())


def _holds_within(seconds: float, holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def sleepers() -> Survivors:
    """Processes that a test starts and that must not survive it."""
    return Survivors()
