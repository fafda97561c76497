# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that compile sources for one step after another, so that none waits for a sandbox of its own.

Edge: a thread for each sandbox, pipes, the clock.

Sources are compiled there and never run, each in a fork of a process that compiles none: a step cannot show in what
another one gets. So a server is known by what steps have in common alone: root, interpreter and sandbox settings.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from derive.build.builders.script import sandbox_over
from derive.build.context import Context
from derive.canonical import Digest, digest_document
from derive.derivations.model import ResolvedDerivation
from derive.sandbox.outcome import Cancelled, Lost, Outcome, Runner, TimedOut, failure_of
from derive.sandbox.request import Program
from derive.sandbox.scratch import ScratchFolders, scratch_folders
from derive.sandbox.spec import SandboxSpec
from derive.wheels.bytecode import PAUSE, SCRIPT, Replies, Reply, command, script, strange
from derive.wheels.bytecode import request as asked_of

_INTERPRETER = "/usr/bin/python"
_DOER = "byte-code compiler"
_PIPE = 1 << 20  # bytes that a pipe is to hold, so that the compiler need not wait for the engine
_LAST_S = 1.0  # for a compiler that has nothing to do to end by itself
_POLL_S = 0.1  # how often it is asked whether the step must stop


class _Ended(Exception):
    """The sandbox has ended, and replies are still due."""


class CompileServer:
    """One sandbox with one compiler in it. Lent to one step at a time.

    Raises, where it is used:
        HostRefuses: when this machine cannot make the sandbox.
        BuildFailed: when the root holds no such interpreter, or the compiler ends before its time.
    """

    def __init__(self, request: ResolvedDerivation, context: Context) -> None:
        """Start it, with a step's root, interpreter and number of jobs."""
        self._log: Callable[[bytes], None] = context.log_bytes
        self._stop = threading.Event()
        self._outcome: Outcome = Lost()
        self._error: BaseException | None = None
        with contextlib.ExitStack() as stack:
            folders = stack.enter_context(scratch_folders(Path(context.scratch).parent))
            sandbox, spec = context.sandbox(), _spec(request, context, folders)
            self._asking = stack.enter_context(contextlib.ExitStack())
            # O_RDWR: it is to open before anybody reads.
            self._requests = _pipe(self._asking, folders.work / "requests", os.O_RDWR)
            self._replies = _pipe(stack, folders.work / "replies", os.O_RDONLY)
            self._over, over_end = os.pipe()
            stack.callback(os.close, self._over)
            run = (sandbox, spec, over_end)
            self._thread = threading.Thread(target=self._run, args=run, name="compiler", daemon=True)
            self._thread.start()
            self._owned = stack.pop_all()

    def compile(self, sources: Iterable[tuple[bytes, bytes]], context: Context) -> Iterator[Reply]:
        """Yield a reply for each source, a path and its contents, in their order; all must be taken.

        Raises:
            BuildFailed: when the step's time is up, or as above.
            Interrupted: when the step is to stop.
        """
        self._log = context.log_bytes
        try:
            yield from self._in_order(self._talk(sources, context))
        except _Ended:
            raise self._failure(context.name) from None
        finally:
            self._log = _nowhere

    @staticmethod
    def _in_order(replies: Iterator[Reply]) -> Iterator[Reply]:
        """Yield replies by place, up to the pause."""
        waiting: dict[int, Reply] = {}
        due = 0
        for reply in replies:
            if reply.place < due or reply.place in waiting:
                raise strange(f"a second one of place {reply.place}")
            waiting[reply.place] = reply
            while (found := waiting.pop(due, None)) is not None:
                due += 1
                if found.status == "paused":
                    return
                yield found
        raise _Ended

    @property
    def is_running(self) -> bool:
        """Whether it can still be lent."""
        return self._thread.is_alive() and not self._stop.is_set()

    def close(self) -> None:
        """End it, whatever it does, and remove its folders; a second time is no error."""
        self._stop.set()
        self._thread.join()
        self._owned.close()

    def end(self) -> None:
        """Let it end by itself: there are no more requests. For one that no step has; close it then."""
        self._asking.close()
        self._thread.join(_LAST_S)

    def _talk(self, sources: Iterable[tuple[bytes, bytes]], context: Context) -> Iterator[Reply]:
        """Write requests and yield replies, both as they can be, until the sandbox has ended."""
        outgoing = chain((asked_of(path, source) for path, source in sources), (PAUSE,))
        unsent = memoryview(b"")
        replies = Replies()
        until = None if context.timeout_s is None else time.monotonic() + context.timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._over, selectors.EVENT_READ)
            selector.register(self._replies, selectors.EVENT_READ)
            selector.register(self._requests, selectors.EVENT_WRITE)
            while True:
                ready = {key.fd for key, _ in selector.select(_POLL_S)}
                self._watch(context, until)
                if self._requests in ready:
                    unsent = unsent or memoryview(next(outgoing, b""))
                    if unsent:
                        unsent = unsent[_write(self._requests, unsent) :]
                    else:
                        selector.unregister(self._requests)
                if self._replies in ready:
                    yield from replies.take(_read(self._replies))
                if self._over in ready:
                    return

    def _watch(self, context: Context, until: float | None) -> None:
        ended: Outcome | None = None
        if context.cancel.is_set():
            ended = Cancelled()
        elif until is not None and context.timeout_s is not None and time.monotonic() > until:
            ended = TimedOut(context.timeout_s)
        failure = None if ended is None else failure_of(ended, name=context.name, log=None, doer=_DOER)
        if failure is not None:
            self.close()
            raise failure

    def _failure(self, name: str) -> BaseException:
        """Return why the sandbox has ended."""
        self._thread.join()
        if self._error is not None:
            return self._error
        return failure_of(self._outcome, name=name, log=None, doer=_DOER) or strange("it ended")

    def _run(self, sandbox: Runner, spec: SandboxSpec, over: int) -> None:
        """Run the sandbox to its end, in a thread of its own."""
        try:
            self._outcome = sandbox.run(spec, log=lambda line: self._log(line + b"\n"), cancel=self._stop)
        except BaseException as error:  # noqa: BLE001 - raised where the server is used
            self._error = error
        finally:
            os.close(over)


class CompileServers:
    """The servers of one run: as many of each kind as steps have asked for at once, ended together."""

    def __init__(self) -> None:
        self._idle: dict[Digest, list[CompileServer]] = {}
        self._guard = threading.Lock()

    @contextlib.contextmanager
    def lent(self, request: ResolvedDerivation, context: Context) -> Iterator[CompileServer]:
        """Lend a server to a step, started if none is idle; one that the step did not leave in order is ended."""
        key = _kind(request, context)
        with self._guard:
            idle = self._idle.setdefault(key, [])
            server = idle.pop() if idle else None
        if server is not None and not server.is_running:
            server.close()
            server = None
        server = server or CompileServer(request, context)
        try:
            yield server
        except BaseException:
            server.close()
            raise
        with self._guard:
            self._idle.setdefault(key, []).append(server)

    def close(self) -> None:
        """End all that are idle: when no step runs any more, all."""
        with self._guard:
            servers = [server for kind in self._idle.values() for server in kind]
            self._idle.clear()
        for server in servers:
            server.end()
            server.close()


@contextlib.contextmanager
def own_server(request: ResolvedDerivation, context: Context) -> Iterator[CompileServer]:
    """Lend a server that no other step had, and end it."""
    server = CompileServer(request, context)
    try:
        yield server
        server.end()
    finally:
        server.close()


def _kind(request: ResolvedDerivation, context: Context) -> Digest:
    return digest_document(
        {
            "derive": "compile-server/1",
            "builder": request.version,
            "root": request.tree("root").hex,
            "python": request.arguments["python"],
            "sandbox": request.arguments["sandbox"],
            "jobs": context.jobs,
        }
    )


def _spec(request: ResolvedDerivation, context: Context, folders: ScratchFolders) -> SandboxSpec:
    tool = folders.top / "tool"
    tool.mkdir(mode=0o755)
    (tool / SCRIPT).write_bytes(script())
    (tool / SCRIPT).chmod(0o444)
    line = command(
        python=f"{_INTERPRETER}{request.arguments['python']}",
        script=f"/in/tool/{SCRIPT}",
        requests="/build/requests",
        replies="/build/replies",
        jobs=context.jobs,
    )
    return sandbox_over(request, context, folders, Program(argv=line), {"tool": os.fsencode(tool)}, {})


def _pipe(stack: contextlib.ExitStack, path: Path, flags: int) -> int:
    os.mkfifo(path, 0o600)
    opened = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    stack.callback(os.close, opened)
    with contextlib.suppress(OSError):  # a person may have only so much of it
        fcntl.fcntl(opened, fcntl.F_SETPIPE_SZ, _PIPE)
    return opened


def _nowhere(_: bytes) -> None:
    """Drop what is said while no step has the server."""


def _write(pipe: int, data: memoryview) -> int:
    try:
        return os.write(pipe, data)
    except BlockingIOError:
        return 0


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, _PIPE)
    except BlockingIOError:
        return b""
