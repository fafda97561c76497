# SPDX-License-Identifier: Apache-2.0
"""Watches a host that also serves models while something is built there: holds its lock, looks each second.

Edge: SSH or a program of this machine, a thread.

Whatever goes wrong with watching stops the build: nobody then knows whether memory is left.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from derive.deploy.effects import this_process
from derive.deploy.node_errors import NodeError
from derive.deploy.programs import BOOT, payload, read_answer
from derive.errors import Corrupt, DeriveError
from derive.schedule.config import Guard
from derive.schedule.idle import IdleFacts, Verdict, may_build, must_stop, read_idle_facts, reason_of

if TYPE_CHECKING:
    from derive.canonical import Json
    from derive.deploy.ssh_config import SshSettings

EVERY_S = 1.0
_SILENT_S = 10.0
"""After how long without a line a watch counts as lost."""
_FIRST_S = 45.0
_LONGEST_S = 7 * 24 * 3600
_SAYS = b"derive-says "


def look(name: str, guard: Guard, settings: SshSettings | None = None) -> IdleFacts:
    """Ask a host once how it stands; nothing is held there.

    Raises:
        NodeError: when it cannot be asked, or does not answer.
        Corrupt: when what it says is something else.
    """

    async def main() -> IdleFacts:
        async with asyncio.timeout(_FIRST_S), _lines(name, "idle-facts", guard, {}, settings) as lines:
            text = b"\n".join([line.rstrip(b"\n") async for line in lines])
        return read_idle_facts(name, _answer(name, "idle-facts", text))

    return asyncio.run(_in_time(name, "idle-facts", main()))


@dataclass(slots=True)
class Watch:
    """A host that is watched by a thread from :meth:`begin` to :meth:`close`.

    ``verdict`` is None until the host has said whether it may build; ``stop`` are the reasons why what runs there is
    to be stopped, and none where it may go on; ``lowest_bytes`` is the least memory that was available meanwhile.
    ``changed`` is called from the thread whenever one of them changes.
    """

    name: str
    guard: Guard
    settings: SshSettings | None = None
    every_s: float = EVERY_S
    changed: Callable[[], None] = lambda: None
    verdict: Verdict | None = None
    stop: tuple[str, ...] = ()
    lowest_bytes: int | None = None
    samples: int = 0
    _close: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to ask; returns at once."""
        self._thread = threading.Thread(target=self._run, name=f"watch-{self.name}", daemon=True)
        self._thread.start()

    @property
    def may(self) -> bool:
        """Whether something may run there now."""
        return self.verdict is not None and self.verdict.may and not self.stop

    def wait(self, timeout_s: float = _FIRST_S) -> Verdict:
        """Wait until the host has said whether it may build; a host that says nothing may not."""
        waiting = threading.Event()
        for _ in range(int(timeout_s / 0.02) + 1):
            if self.verdict is not None:
                return self.verdict
            waiting.wait(0.02)
        return Verdict(jobs=0, reasons=(f"no answer within {timeout_s:g} s",))

    def close(self) -> None:
        """Free the host's lock, and wait until nothing is left of the watch."""
        self._close.set()
        loop, task = self._loop, self._task
        # A program of this machine that is only just being started would be left behind: it answers at once. One whose
        # answer was no ends by itself.
        ends = self.verdict is not None and not self.verdict.may
        is_starting = self.guard.host is None and self.verdict is None
        if loop is not None and task is not None and not is_starting and not ends:
            with suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(task.cancel)
        if self._thread is not None:
            self._thread.join(timeout=_SILENT_S)

    def _run(self) -> None:
        async def main() -> None:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if not self._close.is_set():
                await self._watch()

        try:
            asyncio.run(main())
        except asyncio.CancelledError:
            pass
        except (DeriveError, OSError, TimeoutError) as error:
            self._lost(_why(error))
        finally:
            self._loop = self._task = None

    def _lost(self, why: str) -> None:
        if self._close.is_set():
            return
        if self.verdict is None:
            self.verdict = Verdict(jobs=0, reasons=(why,))
        elif self.verdict.may and not self.stop:
            self.stop = (f"nobody can see any more how it stands: {why}",)
        self.changed()

    async def _watch(self) -> None:
        given: dict[str, Json] = {
            "who": this_process(" ".join(["derive", *sys.argv[1:3]])).words(),
            "every_s": str(self.every_s),
            "most_s": _LONGEST_S,
        }
        async with _lines(self.name, "idle-watch", self.guard, given, self.settings) as lines:
            said: list[bytes] = []
            patience = _FIRST_S
            while True:
                async with asyncio.timeout(patience):
                    line = await anext(lines, None)
                if line is None:
                    break
                said.append(line.rstrip(b"\n"))
                if line.startswith(_SAYS):
                    patience = _SILENT_S
                    self._judge(read_idle_facts(self.name, json.loads(line[len(_SAYS) :])))
                    if self._close.is_set() or (self.verdict is not None and not self.verdict.may):
                        return
                    said.clear()
            _answer(self.name, "idle-watch", b"\n".join(said))
            raise NodeError("its watch has ended", node=self.name, effect="idle-watch")

    def _judge(self, facts: IdleFacts) -> None:
        self.samples += 1
        lowest = self.lowest_bytes
        self.lowest_bytes = facts.available_bytes if lowest is None else min(lowest, facts.available_bytes)
        if self.verdict is None:
            self.verdict = may_build(facts, self.guard)
            self.changed()
        elif not self.stop:
            self.stop = must_stop(facts, self.guard)
            if self.stop:
                self.changed()


def _answer(name: str, effect: str, text: bytes) -> Any:
    """Return what a program answered at its end; raises NodeError for what it refused, and where it did not answer."""
    answer = read_answer(b"\n" + text + b"\n")
    if answer is None:
        hint = "it needs python3 there; ask it by hand, then again"
        raise NodeError("its program did not answer", node=name, effect=effect, hint=hint)
    if "refused" in answer:
        said = answer["refused"]
        raise NodeError(str(said["message"]), node=name, effect=effect, detail=said["detail"], hint=said["hint"])
    return answer["done"]


@asynccontextmanager
async def _lines(
    name: str, effect: str, guard: Guard, more: Mapping[str, Json], settings: SshSettings | None
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the lines of an effect, there or here."""
    from derive.deploy.ssh_config import ssh_settings

    settings = settings or ssh_settings(os.environ)
    given: dict[str, Json] = {"lock": guard.lock, "engine": settings.engine_socket, **more}
    if guard.host is None or guard.user is None:
        async with _lines_here(payload(effect, given, held=True)) as lines:
            yield lines
        return
    from derive.deploy.remote import connect_host

    async with connect_host(name, guard.host, guard.user, settings) as node, node.telling(effect, given) as lines:
        yield lines


@asynccontextmanager
async def _lines_here(data: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
    pipe = asyncio.subprocess.PIPE
    words = (sys.executable, "-I", "-S", "-c", BOOT)
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(data)
        yield aiter(process.stdout)
    finally:
        # Not by asyncio's own kill: that may find that it has ended before the loop's watcher of children does.
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        # What it still had to say would keep its end from being seen.
        await process.communicate()


async def _in_time(name: str, effect: str, work: Coroutine[Any, Any, IdleFacts]) -> IdleFacts:
    try:
        return await work
    except TimeoutError as error:
        raise NodeError(f"no answer within {_FIRST_S:g} s", node=name, effect=effect) from error
    except ValueError as error:
        raise Corrupt("what it says is no document", where=name, detail=(str(error)[:200],)) from error


def _why(error: Exception) -> str:
    if isinstance(error, DeriveError):
        return reason_of(error)
    return str(error) or "no answer in time"
