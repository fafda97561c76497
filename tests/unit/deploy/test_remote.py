# SPDX-License-Identifier: Apache-2.0
"""Nodes over a real sshd: who is let in, how words and bytes travel, and what a lost connection comes to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest

from derive.deploy.effects import run_fenced
from derive.deploy.node_errors import (
    ConnectionLost,
    EffectFailed,
    EngineRefuses,
    NodeSlow,
    NodeUnreachable,
    SeveralNodes,
)
from derive.deploy.remote import Node, Nodes, connect
from derive.deploy.ssh_config import SshSettings, ssh_settings, way_to
from derive.errors import InputErrors
from support.node_programs import fence_of
from support.nodes import NAMES, AtNode, Sshd, config_text, until

T = TypeVar("T")
SLEEPS = ("sh", "-c", 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 60')
"""A program that writes its number into a file and stays."""


def at_once(sshd: Sshd, settings: SshSettings, function: Callable[[Node], Coroutine[Any, Any, T]]) -> T:
    """Call a function with a node that is connected for it, with settings of its own."""

    async def main() -> T:
        async with connect(sshd.site, settings, only=("spark1",)) as nodes:
            return await function(nodes["spark1"])

    return asyncio.run(main())


def with_config(sshd: Sshd, tmp_path: Path, *changes: tuple[str, str], more: str = "") -> SshSettings:
    text = config_text(sshd.server, more)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "config").write_text(text)
    return replace(sshd.settings, files=(tmp_path / "config",))


def test_all_nodes_are_connected_at_once_and_known_by_name_and_rank(sshd: Sshd) -> None:
    async def main() -> None:
        async with connect(sshd.site, sshd.settings, connections=2) as nodes:
            assert [(node.name, node.rank, node.is_connected) for node in nodes.all] == [
                (name, rank, True) for rank, name in enumerate(NAMES)
            ]
            assert nodes["spark2"] is nodes.all[1]
            said = await nodes.each(lambda node: node.run(["echo", node.name]), only=("spark3", "spark1"))
            assert {name: getattr(ran, "out", ran) for name, ran in said.items()} == {
                "spark1": b"spark1\n",
                "spark3": b"spark3\n",
            }
        assert not any(node.is_connected for node in nodes.all)

    asyncio.run(main())


def test_words_reach_the_program_as_they_are(at_node: AtNode) -> None:
    words = ["a b", "", "'", '"', "$HOME", "`id`", "\\", "*", "ü", "\n", ";", "--", "#"]

    async def echo(node: Node) -> bytes:
        return (await node.run(["printf", "<%s>", *words])).out

    assert at_node(echo).decode() == "".join(f"<{word}>" for word in words)


def test_bytes_go_in_and_come_out_and_the_end_is_told(at_node: AtNode) -> None:
    data = bytes(range(256)) * 4096

    async def several(node: Node) -> list[object]:
        echoed = await node.run(["cat"], stdin=data)
        failed = await node.run(["sh", "-c", "echo no >&2; exit 3"])
        killed = await node.run(["sh", "-c", "kill -9 $$"])
        absent = await node.run(["no-such-program"])
        unread = await node.run(["true"], stdin=data)
        return [echoed.out == data, (failed.code, failed.err), killed.code, absent.code, unread.code]

    assert at_node(several) == [True, (3, b"no\n"), -9, 127, 0]


def test_more_programs_than_sshd_allows_sessions_wait_for_each_other(at_node: AtNode) -> None:
    async def many(node: Node) -> set[int]:
        return {ran.code for ran in await asyncio.gather(*(node.run(["true"]) for _ in range(40)))}

    assert at_node(many) == {0}


def test_a_program_that_takes_too_long_is_told_to_end(at_node: AtNode, tmp_path: Path) -> None:
    mark = tmp_path / "pid"

    async def slow(node: Node) -> None:
        with pytest.raises(NodeSlow, match=r"no answer within 0\.5 s") as caught:
            await run_fenced(node, fence, [*SLEEPS, str(mark)], timeout_s=0.5)
        assert caught.value.where == "spark1: run"
        assert (await node.run(["true"])).code == 0

    fence = fence_of(tmp_path / "site")
    at_node(slow)
    if mark.exists():  # on a busy machine it had not begun
        wait_until(lambda: not Path(f"/proc/{mark.read_text().strip()}").exists())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_host_that_is_not_known_is_refused_with_what_to_do(sshd: Sshd, tmp_path: Path) -> None:
    known = f"UserKnownHostsFile {sshd.server.folder / 'known'}"
    for said in (f"{tmp_path}/absent", "/dev/null", "none"):
        settings = with_config(sshd, tmp_path, (known, f"UserKnownHostsFile {said}\n  StrictHostKeyChecking no"))
        with pytest.raises(NodeUnreachable, match="the host's key is not known") as caught:
            at_once(sshd, settings, lambda node: node.run(["true"]))
        assert caught.value.where == "spark1: ssh"
        assert (caught.value.hint or "").startswith(f"ssh-keyscan -p {sshd.server.port} 127.0.0.1 >> ")


def test_a_host_whose_key_has_changed_is_refused_as_that(sshd: Sshd, tmp_path: Path) -> None:
    public = " ".join((sshd.server.folder / "user.pub").read_text().split()[:2])
    (tmp_path / "known").write_text(f"[127.0.0.1]:{sshd.server.port} {public}\n")
    settings = with_config(sshd, tmp_path, (f"{sshd.server.folder / 'known'}", f"{tmp_path / 'known'}"))
    with pytest.raises(NodeUnreachable, match="another key than the one that is known") as caught:
        at_once(sshd, settings, lambda node: node.run(["true"]))
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.server.port}'" in (caught.value.hint or "")


def test_a_user_without_an_accepted_key_is_asked_for_no_password(sshd: Sshd, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    settings = with_config(sshd, tmp_path, (str(sshd.server.folder / "user"), str(tmp_path / "other")))
    with pytest.raises(NodeUnreachable, match="none of this user's keys is accepted") as caught:
        at_once(sshd, settings, lambda node: node.run(["true"]))
    assert "ssh-copy-id" in (caught.value.hint or "")


def test_odd_lines_and_absent_files_in_settings_do_no_harm(sshd: Sshd, tmp_path: Path) -> None:
    known, user = sshd.server.folder / "known", sshd.server.folder / "user"
    (tmp_path / "known").write_text("odd\n@what is this\n|1|x\n" + known.read_text())
    settings = with_config(
        sshd,
        tmp_path,
        (f"UserKnownHostsFile {known}", f"UserKnownHostsFile {tmp_path}/absent {tmp_path}/known"),
        (f"IdentityFile {user}", f"IdentityFile {tmp_path}/absent\n  IdentityFile {user}"),
        more="  RemoteCommand false\n  RequestTTY force\n  SendEnv LANG LC_*\n  GSSAPIAuthentication yes",
    )
    settings = replace(settings, files=(tmp_path / "none", *settings.files))
    assert at_once(sshd, settings, lambda node: node.run(["echo", "in"])).out == b"in\n"


def test_a_node_behind_another_host_is_reached_through_it_and_both_are_checked(sshd: Sshd, tmp_path: Path) -> None:
    way = "Host spark1\n  ProxyJump jump\n"

    def reached(text: str) -> bytes:
        (tmp_path / "config").write_text(text + f"Host *\n  User {sshd.site.ssh_user}\n" + sshd.config.read_text())
        settings = replace(sshd.settings, files=(tmp_path / "config",))
        return at_once(sshd, settings, lambda node: node.run(["echo", "in"])).out

    assert reached(way) == b"in\n"
    with pytest.raises(NodeUnreachable):
        reached(f"Host jump\n  UserKnownHostsFile /dev/null\n{way}")
    with pytest.raises(InputErrors) as caught:
        reached(f"Host jump\n  UserKnownHostsFile none\n{way}")
    assert caught.value.problems()[0].message == "keys of hosts are checked: UserKnownHostsFile none"


def test_settings_that_are_none_are_an_input_error(sshd: Sshd, tmp_path: Path) -> None:
    settings = with_config(sshd, tmp_path, more="  Port eight\n")
    settings.files[0].write_text("Host *\n  Port eight\n")
    with pytest.raises(InputErrors) as caught:
        at_once(sshd, settings, lambda node: node.run(["true"]))
    assert "not a configuration of ssh" in caught.value.problems()[0].message


def test_a_key_or_a_file_of_settings_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key\n")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "own")], check=True)
    config = tmp_path / "config"
    settings = SshSettings(files=(config,))
    config.write_text(f"IdentityFile {tmp_path}/own\nIdentityFile {tmp_path}/key\n")
    with pytest.raises(InputErrors) as caught:
        way_to("host", "user", settings)
    (problem,) = caught.value.problems()
    assert (problem.where, problem.message.startswith("not a key of ssh")) == (f"{tmp_path}/key", True)
    config.write_bytes(b"User \xff\n")
    with pytest.raises(InputErrors) as caught:
        way_to("host", "user", settings)
    assert [problem.where for problem in caught.value.problems()] == [str(config)]


def test_a_person_may_name_settings_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    environ = {"DERIVE_SSH_CONFIG": str(tmp_path / "config"), "DERIVE_ENGINE_SOCKET": "/run/other.sock"}
    settings = ssh_settings(environ)
    assert (settings.files, settings.engine_socket) == ((tmp_path / "config",), "/run/other.sock")
    assert [path.name for path in ssh_settings({}).files] == ["config", "ssh_config"]
    with pytest.raises(InputErrors):
        ssh_settings({"DERIVE_SSH_CONFIG": str(tmp_path / "absent")})


def test_every_node_that_is_not_reached_is_named_at_once(sshd: Sshd, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        text = f"Host spark2\n  Port {closed.getsockname()[1]}\nHost spark3\n  HostName no-such-host.invalid\n"
        (tmp_path / "config").write_text(text + sshd.config.read_text())
        settings = replace(sshd.settings, files=(tmp_path / "config",))

        async def all_of_them(*, require_all: bool) -> Nodes:
            async with connect(sshd.site, settings, require_all=require_all) as nodes:
                assert nodes["spark1"].is_connected
                with pytest.raises(NodeUnreachable, match="no sshd listens there"):
                    await nodes["spark2"].run(["true"])
                return nodes

        with pytest.raises(SeveralNodes) as caught:
            asyncio.run(all_of_them(require_all=True))
        assert [problem.where for problem in caught.value.problems()] == ["spark2: ssh", "spark3: ssh"]
        assert [problem.message for problem in caught.value.problems()] == [
            "no sshd listens there",
            "no host is called no-such-host.invalid",
        ]
        assert list(asyncio.run(all_of_them(require_all=False)).unreachable) == ["spark2", "spark3"]


def test_a_lost_connection_is_told_and_the_next_thing_opens_it_anew(
    sshd: Sshd, at_node: AtNode, tmp_path: Path
) -> None:
    mark = tmp_path / "begun"

    async def lost(node: Node) -> None:
        running = asyncio.create_task(node.run(["sh", "-c", f"touch {mark}; exec sleep 60"]))
        await until(mark.exists)
        sshd.cut()
        with pytest.raises(ConnectionLost, match="the connection to spark1 was lost") as caught:
            await running
        assert "may be repeated" in (caught.value.hint or "")
        assert not node.is_connected
        assert (await node.run(["echo", "again"])).out == b"again\n"
        assert node.is_connected

    at_node(lost)


def test_asyncio_does_not_tell_of_a_lost_connection_what_whoever_used_it_tells(sshd: Sshd) -> None:
    async def main() -> bool:
        async with connect(sshd.site, sshd.settings, only=("spark1",)):
            return logging.getLogger("asyncio").isEnabledFor(logging.WARNING)

    logging.getLogger("asyncio").setLevel(logging.NOTSET)
    assert not asyncio.run(main())


def test_being_cancelled_ends_what_was_under_way(at_node: AtNode, tmp_path: Path) -> None:
    mark = tmp_path / "pid"

    async def cancelled(node: Node) -> None:
        running = asyncio.create_task(run_fenced(node, fence, [*SLEEPS, str(mark)]))
        await until(mark.exists)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    fence = fence_of(tmp_path / "site")
    at_node(cancelled)
    wait_until(lambda: not Path(f"/proc/{mark.read_text().strip()}").exists())


@contextlib.contextmanager
def greeter() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=_greet, args=(listening,), daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def _greet(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            with listening.accept()[0] as peer:
                peer.sendall(b"hello")


def test_ports_lead_both_ways(at_node: AtNode) -> None:
    async def told(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        data = await reader.read()
        writer.close()
        return data

    async def both(node: Node) -> None:
        with greeter() as port:
            async with node.port_here(port) as here, node.port_there(port, 0) as there:
                assert (await told(here), await told(there)) == (b"hello", b"hello")
            with pytest.raises(ConnectionRefusedError):
                await told(here)
            with pytest.raises(EffectFailed, match=f"port {port} is listened on") as caught:
                async with node.port_there(port, port):
                    pass
            assert caught.value.detail[0].startswith(f"process   {os.getpid()} ")

    at_node(both)


def test_a_port_that_a_lost_connection_still_holds_is_freed(sshd: Sshd, at_node: AtNode) -> None:
    async def freed(node: Node) -> None:
        with greeter() as port:
            async with connect(sshd.site, sshd.settings, only=("spark2",)) as nodes:
                silent = nodes["spark2"]
                async with silent.port_there(port, 0) as there, node.port_there(port, there) as again:
                    assert again == there
                    reader, writer = await asyncio.open_connection("127.0.0.1", there)
                    assert await reader.read() == b"hello"
                    writer.close()
                    await until(lambda: not silent.is_connected)
        assert node.is_connected

    at_node(freed)


def test_an_engine_that_is_not_there_is_named_with_its_socket(sshd: Sshd, tmp_path: Path) -> None:
    async def opened(node: Node) -> None:
        with pytest.raises(EngineRefuses, match=f"no container engine listens at {tmp_path}/none") as caught:
            await node.open_engine()
        assert caught.value.where == "spark1: engine"

    at_once(sshd, replace(sshd.settings, engine_socket=f"{tmp_path}/none"), opened)


def test_a_mistake_of_the_caller_ends_all_and_is_no_answer_of_a_node(sshd: Sshd) -> None:
    async def main() -> None:
        async with connect(sshd.site, sshd.settings) as nodes:

            async def broken(node: Node) -> None:
                if node.rank == 1:
                    raise ZeroDivisionError
                await asyncio.sleep(60)

            await nodes.each(broken)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())


def test_nothing_is_left_of_the_ways_to_engines(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(prefix="ways-") as folder:  # short: the path of a socket has a limit
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        at_once(sshd, sshd.settings, lambda node: node.run(["true"]))
        assert not list(Path(folder).iterdir())
