# SPDX-License-Identifier: Apache-2.0
"""One node over SSH: a connection through which programs run, ports lead and the container engine is spoken to.

Edge: an SSH connection, loopback sockets.

A connection that is lost is opened anew when something is next asked of the node, and never in the middle: what was
under way raises ``ConnectionLost``, and whoever asked for it knows whether to ask again.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from derive.canonical import Json
from derive.deploy.node_errors import ConnectionLost, EngineRefuses, NodeError, NodeSlow
from derive.deploy.programs import COMMAND, payload, read_answer
from derive.deploy.refusals import no_answer, refusal
from derive.deploy.ssh_config import SshSettings, Way, way_to
from derive.deploy.unreachable import unreachable
from derive.errors import DeriveError
from derive.words import one_line

if TYPE_CHECKING:
    import asyncssh
    import docker

P = ParamSpec("P")
T = TypeVar("T")

_SESSIONS = 8
_ROOM_S, _ROOM_POLL_S = 5.0, 0.05
"""Programs that run at once through one connection: sshd allows ten."""
_AGAIN_S = 5
"""For how long a node that was not reached is not tried again."""
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A program that ended there: its exit code (minus the signal's number where one ended it), and what it wrote."""

    code: int
    out: bytes
    err: bytes


@dataclass(slots=True, kw_only=True)
class EngineWay:
    """The way to a node's engine: a socket of this machine that leads to it, and the client that speaks through it."""

    path: str
    listener: asyncssh.SSHListener | None = None
    client: docker.DockerClient | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One node. ``name`` and ``rank`` as in the site, ``host`` what SSH is given, ``user`` who logs in."""

    name: str
    rank: int
    host: str
    user: str
    _settings: SshSettings
    _engine: EngineWay
    _connection: asyncssh.SSHClientConnection | None = None
    _sessions: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_SESSIONS))
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _failed: tuple[float, DeriveError] | None = None
    _opened: int = 0

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection that is not known to be lost."""
        return self._connection is not None and not self._connection.is_closed()

    @property
    def connection_number(self) -> int:
        """Which connection this is, from 1; 0 where there is none. Another than before: one was lost meanwhile."""
        return self._opened if self.is_connected else 0

    @property
    def engine_socket(self) -> str:
        """Where the container engine listens on the node."""
        return self._settings.engine_socket

    async def connect(self) -> None:
        """Open the connection unless there is one.

        Raises:
            NodeUnreachable: with the reason; for a few seconds then, nobody tries again.
            InputErrors: when the user's settings for SSH cannot be read.
        """
        async with self._opening:
            if self.is_connected:
                return
            if self._failed is not None and time.monotonic() - self._failed[0] < _AGAIN_S:
                raise self._failed[1]
            try:
                self._connection = await self._open()
            except DeriveError as error:
                self._failed = (time.monotonic(), error)
                raise
            self._failed = None
            self._opened += 1
            if self._engine.client is not None:
                try:
                    await self._listen()
                except DeriveError:
                    # Half of the way would be taken for all of it by whoever asks next.
                    self._connection.abort()
                    self._connection = None
                    raise

    async def _open(self) -> asyncssh.SSHClientConnection:
        import asyncssh

        way: Way = await asyncio.to_thread(way_to, self.host, self.user, self._settings)
        try:
            async with asyncio.timeout(2 * self._settings.connect_s):
                return await asyncssh.connect(self.host, options=way.options, config=way.files)
        except (OSError, asyncssh.Error, TimeoutError) as error:
            raise unreachable(self.name, way, error) from error

    async def run(self, argv: Sequence[str], *, sudo: bool = False, stdin: bytes = b"", timeout_s: float = 60) -> Ran:
        """Run a program, its words as they are, and return how it ended.

        Raises:
            NodeUnreachable: when there is no connection, and none to be had: nothing was done.
            ConnectionLost: when the connection ended before the program did.
            NodeSlow: when it took longer than ``timeout_s``: it was told to end.
        """
        return await self._exec(self._words(argv, sudo=sudo), argv[0], stdin, held=False, timeout_s=timeout_s)

    async def effect(
        self, name: str, arguments: Mapping[str, Json], *, sudo: bool = False, timeout_s: float = 60
    ) -> Json:
        """Do one of the effects of ``programs.EFFECTS`` and return its answer: ``derive.deploy.effects`` types them.

        Where the connection is lost meanwhile, the program there ends as soon as it notices; an effect may be cut off
        anywhere, and asked for again.

        Raises:
            EffectFailed: or another ``NodeError``, when the node says no, by what it says.
            NodeUnreachable: nothing was done.
            ConnectionLost: it may have been done.
            NodeSlow: likewise.
        """
        data = payload(name, arguments, held=True)
        ran = await self._exec(self._words(COMMAND, sudo=sudo), name, data, held=True, timeout_s=timeout_s)
        answer = read_answer(ran.out)
        if answer is None:
            raise no_answer(self.name, name, code=ran.code, out=ran.out, err=ran.err, sudo=sudo)
        if "refused" in answer:
            raise refusal(self.name, name, answer["refused"])
        done: Json = answer["done"]
        return done

    @asynccontextmanager
    async def telling(
        self, name: str, arguments: Mapping[str, Json], *, sudo: bool = False
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Start an effect that says things until it is ended; yields its lines, and has it ended afterwards.

        The lines stop when it has answered. Where the connection is lost, the program there ends as soon as it notices.

        Raises:
            NodeUnreachable: nothing was done.
            ConnectionLost: also while lines are read.
        """
        import asyncssh

        async with self._sessions:
            await self.connect()
            assert self._connection is not None
            try:
                process = await self._begun(self._connection, self._words(COMMAND, sudo=sudo))
                process.stdin.write(payload(name, arguments, held=True))
            except (asyncssh.Error, OSError) as error:
                raise self._lost(name, str(error)) from error
            try:
                yield self._lines(process, name)
            finally:
                with contextlib.suppress(OSError, asyncssh.Error):
                    process.terminate()
                process.close()

    async def _lines(self, process: asyncssh.SSHClientProcess[bytes], what: str) -> AsyncIterator[bytes]:
        import asyncssh

        try:
            async for line in process.stdout:
                yield line
            await process.wait_closed()
        except (asyncssh.Error, OSError) as error:
            raise self._lost(what, str(error)) from error
        if process.returncode is None:
            raise self._lost(what, "the connection was closed")

    async def _begun(self, connection: asyncssh.SSHClientConnection, command: str) -> asyncssh.SSHClientProcess[bytes]:
        """Start a command in a session: sshd counts one that has ended until it has seen that, and refuses others."""
        import asyncssh

        until = time.monotonic() + _ROOM_S
        while True:
            try:
                return await connection.create_process(command, encoding=None)
            except asyncssh.ChannelOpenError:
                if connection.is_closed() or time.monotonic() > until:
                    raise
                await asyncio.sleep(_ROOM_POLL_S)

    async def _exec(self, command: str, what: str, stdin: bytes, *, held: bool, timeout_s: float) -> Ran:
        import asyncssh

        async with self._sessions:
            await self.connect()
            assert self._connection is not None
            process: asyncssh.SSHClientProcess[bytes] | None = None
            try:
                async with asyncio.timeout(timeout_s):
                    process = await self._begun(self._connection, command)
                    return await self._communicate(process, what, stdin, held=held)
            except TimeoutError as error:
                hint = "it was told to end; look at the node, then ask again"
                raise NodeSlow(f"no answer within {timeout_s:g} s", node=self.name, effect=what, hint=hint) from error
            except (asyncssh.Error, OSError) as error:
                raise self._lost(what, str(error)) from error
            finally:
                if process is not None and process.returncode is None:
                    with contextlib.suppress(OSError, asyncssh.Error):
                        process.terminate()
                    process.close()

    async def _communicate(
        self, process: asyncssh.SSHClientProcess[bytes], what: str, stdin: bytes, *, held: bool
    ) -> Ran:
        with contextlib.suppress(BrokenPipeError):  # it may end without reading
            process.stdin.write(stdin)
            if not held:
                process.stdin.write_eof()
        out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
        await process.wait_closed()
        code = process.returncode
        if code is None:
            raise self._lost(what, "the connection was closed")
        return Ran(code=code, out=out, err=err)

    def _words(self, argv: Sequence[str], *, sudo: bool) -> str:
        """Return a command for the shell that SSH starts: the one place where words are quoted."""
        return shlex.join(("sudo", "-n", "--", *argv) if sudo and self.user != "root" else argv)

    def _lost(self, what: str, why: str) -> ConnectionLost:
        message = f"the connection to {self.name} was lost"
        hint = f"ssh {self.user}@{self.host}; then ask again: whatever was cut off may be repeated"
        return ConnectionLost(message, node=self.name, effect=what, detail=(why,) if why else (), hint=hint)

    async def open_engine(self) -> docker.DockerClient:
        """Return a client of the node's engine, whose every call blocks: use ``asyncio.to_thread``.

        Raises:
            EngineRefuses: when there is none, it does not answer, or not to this user.
        """
        from docker import DockerClient
        from docker.errors import DockerException

        async with self._asking:
            await self.connect()
            if self._engine.client is None:
                number = self.connection_number
                try:
                    await self._listen()
                    url = f"unix://{self._engine.path}"
                    opened = await asyncio.to_thread(DockerClient, base_url=url, version="auto", timeout=120)
                except DockerException as error:
                    if self.connection_number != number:
                        raise self._lost("engine", one_line(str(error))[:200]) from error
                    raise await self._engine_refuses(error) from error
                self._engine.client = opened
            return self._engine.client

    async def _listen(self) -> None:
        import asyncssh

        assert self._connection is not None
        try:
            await asyncio.to_thread(Path(self._engine.path).unlink, missing_ok=True)
            self._engine.listener = await self._connection.forward_local_path(
                self._engine.path, self._settings.engine_socket
            )
        except (asyncssh.Error, OSError) as error:
            raise self._lost("engine", str(error)) from error

    async def _engine_refuses(self, error: Exception) -> NodeError:
        """Look at the socket itself, of whose refusal nothing comes through the connection."""
        socket = self._settings.engine_socket
        if (await self.run(["test", "-S", socket])).code != 0:
            message, hint = f"no container engine listens at {socket}", "sudo systemctl start docker; docker info"
        elif (await self.run(["test", "-w", socket])).code != 0:
            message = f"{self.user} may not use the container engine"
            hint = f"on the node, once: sudo usermod -aG docker {self.user}; it counts from the next login"
        else:
            message = "the container engine does not answer"
            hint = "docker info says why, on the node; sshd there must not forbid AllowStreamLocalForwarding"
        return EngineRefuses(message, node=self.name, effect="engine", detail=(str(error)[:200],), hint=hint)

    async def ask(
        self, function: Callable[Concatenate[docker.DockerClient, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a function of ``derive.deploy.engines`` with this node's client, in a thread.

        Raises:
            EngineRefuses: when the engine does not answer or refuses.
            ConnectionLost: when the connection ended meanwhile.
        """
        from derive.deploy.engines import EngineGone

        client = await self.open_engine()
        number = self.connection_number
        try:
            return await asyncio.to_thread(function, client, *args, **kwargs)
        except EngineGone as error:
            # Somebody else who asks the node may have opened it anew already.
            if self.connection_number != number:
                raise self._lost("engine", error.detail[0] if error.detail else "") from error
            raise EngineRefuses(
                error.message, node=self.name, effect=function.__name__, detail=error.detail, hint=error.hint
            ) from error

    @asynccontextmanager
    async def port_here(self, port_there: int) -> AsyncIterator[int]:
        """Yield a port of this machine's loopback that leads to one of the node's."""
        import asyncssh

        await self.connect()
        assert self._connection is not None
        try:
            listener = await self._connection.forward_local_port(LOOPBACK, 0, LOOPBACK, port_there)
        except (asyncssh.Error, OSError) as error:
            raise self._lost(f"port {port_there}", str(error)) from error
        try:
            yield listener.get_port()
        finally:
            await _close(listener)

    @asynccontextmanager
    async def port_there(self, local_port: int, wanted_port: int) -> AsyncIterator[int]:
        """Yield a port of the node's loopback that leads to one of this machine's; 0 is any that is free there.

        A port that an earlier connection still holds, of which sshd has not noticed that it is lost, is freed first.

        Raises:
            NodeError: when something else listens there, or sshd does not let it be led.
            ConnectionLost: when the connection ended meanwhile.
        """
        listener = await self._lead_here(local_port, wanted_port)
        if listener is None:
            if wanted_port:
                await self.effect("port-free", {"port": wanted_port}, sudo=True)
                listener = await self._lead_here(local_port, wanted_port)
            if listener is None:
                message = f"port {wanted_port} of the node cannot be led to this machine"
                hint = "sshd there must not say AllowTcpForwarding no, nor DisableForwarding yes"
                raise NodeError(message, node=self.name, effect="forward", hint=hint)
        try:
            yield listener.get_port()
        finally:
            await _close(listener)

    async def _lead_here(self, local_port: int, wanted_port: int) -> asyncssh.SSHListener | None:
        """Have the node's sshd listen on a port; None where it does not."""
        import asyncssh

        await self.connect()
        assert self._connection is not None
        try:
            return await self._connection.forward_remote_port(LOOPBACK, wanted_port, LOOPBACK, local_port)
        except asyncssh.ChannelListenError:
            return None
        except (asyncssh.Error, OSError) as error:
            raise self._lost("forward", str(error)) from error

    async def close(self) -> None:
        """End the connection and all that leads through it."""
        if self._engine.client is not None:
            self._engine.client.close()
            self._engine.client = None
        if self._connection is not None:
            self._connection.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await self._connection.wait_closed()
            # A connection whose other side is silent is not waited for.
            self._connection.abort()


async def _close(listener: asyncssh.SSHListener) -> None:
    listener.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2):
            await listener.wait_closed()
