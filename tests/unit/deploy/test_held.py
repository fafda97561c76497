# SPDX-License-Identifier: Apache-2.0
"""The leases of all nodes while something is done to them, over a real sshd; the nodes' folder is one and the same."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace

import pytest

from derive.deploy.effects import free_lease, new_nonce, read_lease, take_lease, this_process
from derive.deploy.held import Held, hold
from derive.deploy.lease import Fence, Lease
from derive.deploy.node_errors import Fenced
from derive.deploy.reach import Reach, reach
from derive.errors import DeriveError
from support.nodes import Sshd, until

_NAMES = ("spark1", "spark2")


@pytest.fixture(scope="module")
def two(sshd: Sshd) -> Sshd:
    return replace(sshd, site=replace(sshd.site, nodes=sshd.site.nodes[: len(_NAMES)]))


def _at(sshd: Sshd, function: Callable[[Reach], Awaitable[None]]) -> None:
    async def main() -> None:
        async with reach(sshd.site, sshd.settings) as reached:
            await function(reached)

    asyncio.run(main())


async def _nonce(reached: Reach) -> str | None:
    lease: Lease | None = await read_lease(await reached.node("spark1"), reached.site.folder)
    return None if lease is None else lease.nonce


def _hold(
    reached: Reach, lost: Callable[[], None] = lambda: None, what: str = "a test", every_s: float = 20
) -> AbstractAsyncContextManager[Held]:
    return hold(reached, reached.site.folder, this_process(what), lambda *_: None, lost, every_s=every_s)


def test_the_second_operator_is_told_who_the_first_is_whose_lease_is_renewed_until_another_has_taken_it(
    two: Sshd,
) -> None:
    async def check(reached: Reach) -> None:
        told = asyncio.Event()
        async with _hold(reached, told.set, "derive deploy r6", every_s=0.05) as held:
            assert set(held.until) == set(_NAMES)
            with pytest.raises(DeriveError) as caught:
                async with _hold(reached):
                    pytest.fail("the second one has it")
            assert "derive deploy r6" in "".join(one.message for one in caught.value.problems())
            node, folder, nonce = await reached.node("spark1"), reached.site.folder, new_nonce()
            with _hung(await _sshd_of(reached, "spark2")):
                # Whatever other nodes do.
                renewals = {held.until["spark1"]}
                await until(lambda: len(renewals | {held.until["spark1"]}) > 1)
                renewals.add(held.until["spark1"])
                await until(lambda: len(renewals | {held.until["spark1"]}) > len(renewals))
                held.check()
                await free_lease(node, held.fence)
                await take_lease(node, folder, nonce, this_process("another"))
                async with asyncio.timeout(20):
                    await told.wait()
            assert held.is_another
            with pytest.raises(Fenced):
                held.check()
        assert await _nonce(reached) == nonce
        await free_lease(node, Fence(folder=folder, nonce=nonce))

    _at(two, check)


def test_in_the_end_nobody_has_a_lease(two: Sshd) -> None:
    async def check(reached: Reach) -> None:
        async with _hold(reached):
            pass
        assert await _nonce(reached) is None

    _at(two, check)


async def _sshd_of(reached: Reach, name: str) -> int:
    """Return the process of sshd that has a node's connection."""
    return int((await (await reached.node(name)).run(["sh", "-c", "echo $PPID"])).out)


@contextmanager
def _hung(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_node_that_was_lost_is_an_error_without_patience_and_reached_again_with_some(two: Sshd) -> None:
    async def check(reached: Reach) -> None:
        assert two.cut()
        lost = await reached.each(lambda node: node.run(["true"]))
        assert all(isinstance(one, DeriveError) for one in lost.values())
        reached.patience_s = 20
        said = await reached.all_of(lambda node: node.run(["true"]))
        assert {name: ran.code for name, ran in said.items()} == dict.fromkeys(_NAMES, 0)

    _at(two, check)
