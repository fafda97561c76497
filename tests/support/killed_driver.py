# SPDX-License-Identifier: Apache-2.0
"""A process that fills a store and kills itself with SIGKILL at the N-th change to the disk.

Every function through which the engine changes the file system or the database is wrapped from outside, after the
engine is imported: the engine knows nothing of it. A write is cut in two, so that half-written files occur.

As a program it is a server: it reads one JSON list of jobs a line, runs each job in a process of its own, all at once,
and answers with one JSON list of outcomes.

Edge: everything.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import signal
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from derive.canonical import Digest, sha256
from derive.derivations.model import FlatOutput, TreeOutput
from derive.errors import HostRefuses
from derive.store.database import Realisation
from derive.store.local import LocalStore
from derive.store.protocol import CHUNK
from derive.trees import materialise
from derive.trees.listing import DIRECTORY, File, Listing, Location, Symlink
from derive.trees.pack import Member, NewFile, add_members

IMPORTED_LATE = (materialise,)
"""What the store imports when it is used: here before anything is wrapped."""

CHANGES = (
    "chmod",
    "fchmod",
    "ftruncate",
    "link",
    "mkdir",
    "remove",
    "rename",
    "replace",
    "rmdir",
    "symlink",
    "truncate",
    "unlink",
    "utime",
)
SYNCS = ("fdatasync", "fsync", "sync")
WRITES = ("pwrite", "write")


class Counter:
    """Counts the steps of the write path, and kills this process at the fatal one."""

    def __init__(self, fatal: int) -> None:
        self.steps = 0
        self.fatal = fatal

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)


def install(counter: Counter) -> None:
    """Wrap every change to the disk so that it counts before it happens."""
    for name in CHANGES:
        setattr(os, name, _counted(counter, getattr(os, name)))
    for name in SYNCS:
        # Counted and left out: what a killed process wrote is in the kernel's hands, synced or not.
        setattr(os, name, _counted(counter, lambda *_: None))
    for name in WRITES:
        setattr(os, name, _halved(counter, getattr(os, name)))
    os.open = _opening(counter, os.open)
    builtins.open = io.open = _file_opening(counter, io.open)
    _wrap_sqlite(counter)


def _counted(counter: Counter, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        counter.step()
        return real(*args, **kwargs)

    return call


def _halved(counter: Counter, real: Callable[..., int]) -> Callable[..., int]:
    def call(descriptor: int, data: bytes | memoryview, *args: Any) -> int:
        counter.step()
        half = len(data) // 2
        if half:
            done = real(descriptor, data[:half], *args)
            counter.step()
            return done
        return real(descriptor, data, *args)

    return call


def _opening(counter: Counter, real: Callable[..., int]) -> Callable[..., int]:
    def call(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            counter.step()
        return real(path, flags, *args, **kwargs)

    return call


def _file_opening(counter: Counter, real: Callable[..., Any]) -> Callable[..., Any]:
    class CountedFile(io.FileIO):
        def write(self, data: Any, /) -> int:
            view = memoryview(data).cast("B")
            counter.step()
            half = len(view) // 2
            if half:
                done = super().write(view[:half])
                counter.step()
                return done
            return super().write(view)

    def call(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
        if not set(mode) & set("wxa+"):
            return real(file, mode, buffering, *args, **kwargs)
        counter.step()
        raw = CountedFile(file, mode.replace("b", "").replace("t", ""))
        buffered = io.BufferedWriter(raw, io.DEFAULT_BUFFER_SIZE if buffering < 2 else buffering)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *args, **kwargs)

    return call


def _wrap_sqlite(counter: Counter) -> None:
    real = sqlite3.connect

    class CountedCursor(sqlite3.Cursor):
        def execute(self, *args: Any) -> Any:
            return _around(counter, super().execute, *args)

        def executemany(self, *args: Any) -> Any:
            return _around(counter, super().executemany, *args)

    class CountedConnection(sqlite3.Connection):
        def execute(self, *args: Any) -> Any:
            return _around(counter, super().execute, *args)

        def executescript(self, *args: Any) -> Any:
            return _around(counter, super().executescript, *args)

        def cursor(self, *_: Any, **__: Any) -> Any:
            return super().cursor(CountedCursor)

    def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        return real(*args, factory=CountedConnection, **kwargs)

    setattr(sqlite3, "connect", connect)  # noqa: B010 - an overloaded function has no type of its own


def _around(counter: Counter, call: Callable[..., Any], *args: Any) -> Any:
    if args[0].lstrip().upper().startswith("SELECT"):
        return call(*args)
    counter.step()
    result = call(*args)
    counter.step()
    return result


# Jobs


def members() -> Iterator[tuple[bytes, Member]]:
    """Yield the members of the tree that every run makes."""
    yield b"bin/tool", NewFile(executable=True, chunks=[b"#!/bin/sh\n"])
    yield b"caf\xe9", NewFile(executable=False, chunks=[b"text"])
    yield b"share/empty", DIRECTORY
    yield b"share/link", Symlink(b"../bin/tool")
    yield b"share/large", NewFile(executable=False, chunks=[bytes(CHUNK), b"end"])


def fill(root: Path, name: str) -> dict[str, str]:
    """Do one of everything that a build does to a store, and return the digests."""
    with LocalStore(root) as store:
        tree = store.add_listing(add_members(store, members()))
        blob = _add_blob(store, b"first" * 300_000)
        text = b"wheel" * 100
        stored = zlib.compress(text, wbits=-15)
        wheel = _add_blob(store, b"header" + stored)
        at = Location(wheel, 6, len(stored), "deflate")
        inner = File(executable=False, size=len(text), sha256=sha256(text), at=at)
        other = store.add_listing(Listing.of({b"pure.py": inner}))
        for key, output in ((b"a", TreeOutput(tree)), (b"b", FlatOutput(blob)), (b"c", TreeOutput(other))):
            entry = Realisation(
                resolved=sha256(key), outputs={"out": str(output)}, builder="test/1", engine="", host="", duration_ns=1,
                log="", built_s=1,
            )  # fmt: skip
            store.database.add_realisation(entry, sha256(key + key), "step", b"{}")
        store.database.set_root("image", name, blob)
        store.database.set_memo(blob, "memo")
        store.tag(name, blob, store.blob_size(blob), "application/vnd.oci.image.manifest.v1+json")
        store.folder(tree)
        return {"tree": tree.hex, "blob": blob.hex, "other": other.hex}


def move(root: Path, name: str) -> dict[str, str]:
    """Keep a tree, lose the blob that it lies in, and keep the tree again in another blob."""
    with LocalStore(root) as store:
        first = _tree_in(store, b"one" if name == "even" else b"two")
        tree = store.add_listing(first)
        file = store.listing(tree)[b"a"]
        assert isinstance(file, File)
        assert file.at is not None
        lost = file.at.blob
        second = _tree_in(store, b"two" if lost == sha256(b"onetext") else b"one")
        os.unlink(store.blob_path(lost))  # noqa: PTH108 - counted, as what removes blobs would be
        assert store.add_listing(second) == tree
        return {"tree": tree.hex}


def _tree_in(store: LocalStore, before: bytes) -> Listing:
    pack = _add_blob(store, before + b"text")
    file = File(executable=False, size=4, sha256=sha256(b"text"), at=Location(pack, len(before), 4))
    return Listing.of({b"a": file})


def _add_blob(store: LocalStore, data: bytes) -> Digest:
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()


def hold(root: Path, name: str) -> dict[str, str]:
    """Take a lock, say so by a file, and never give it back."""
    with LocalStore(root) as store, store.locked(name):
        (root / "held").touch()
        signal.pause()
    return {}


def fill_up(root: Path, name: str) -> dict[str, str]:
    """Fill a small file system to within some bytes (the name), do the work, make room, and do it again."""
    with LocalStore(root):
        pass
    ballast = root / "ballast"
    with ballast.open("wb") as file:
        size = os.statvfs(root).f_bavail * os.statvfs(root).f_frsize - int(name)
        os.posix_fallocate(file.fileno(), 0, max(size, 1))
    found = {}
    try:
        fill(root, "probe")
    except HostRefuses as error:
        found["refused"] = str(error)
    except Exception as error:  # noqa: BLE001 - the test shows it
        found["error"] = repr(error)
    found["tmp"] = " ".join(path.name for path in (root / "tmp").iterdir())
    found["wrong"] = " ".join(
        path.name for path in (root / "blobs" / "sha256").iterdir() if sha256(path.read_bytes()).hex != path.name
    )
    ballast.unlink()
    found.update(fill(root, "probe"))
    return found


JOBS = {"fill": fill, "move": move, "hold": hold, "fill_up": fill_up}


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """Run one job in this process."""
    counter = Counter(job.get("fatal", 0))
    install(counter)
    try:
        digests = JOBS[job["job"]](Path(job["root"]), job.get("name", "probe"))
    except Exception as error:  # noqa: BLE001 - the test shows it
        return {"error": f"{type(error).__name__}: {error}", "errno": getattr(error, "errno", None)}
    return {"digests": digests, "steps": counter.steps}


def _start(job: dict[str, Any], gate: int, release: int) -> tuple[int, int]:
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    try:
        os.close(release)  # else a job whose server is killed before the gate opens waits for itself
        if not os.read(gate, 1):
            os._exit(0)
        with os.fdopen(writer, "w") as out:  # opened before anything is wrapped
            json.dump(run_job(job), out)
    finally:
        os._exit(0)


def serve() -> None:
    """Answer lines of jobs until standard input ends."""
    for line in sys.stdin:
        gate, release = os.pipe()
        started = [_start(job, gate, release) for job in json.loads(line)]
        os.write(release, b"." * len(started))
        outcomes = []
        for child, reader in started:
            with os.fdopen(reader) as answer:
                text = answer.read()
            _, status = os.waitpid(child, 0)
            killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            outcomes.append({"killed": killed, **(json.loads(text) if text else {})})
        os.close(gate)
        os.close(release)
        sys.stdout.write(json.dumps(outcomes) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
