# SPDX-License-Identifier: Apache-2.0
"""The leases of all nodes while something is done to them, over a real sshd; the nodes' folder is one and the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest

from derive.deploy.effects import free_lease, new_nonce, read_lease, take_lease, this_process
from derive.deploy.held import Held, hold
from derive.deploy.lease import Fence, Lease
from derive.deploy.node_errors import Fenced
from derive.deploy.reach import Reach, reach
from derive.errors import DeriveError
from support.nodes import Sshd, sshd_nodes, until

_NAMES = ("spark1", "spark2")


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd_nodes(tmp_path_factory.mktemp("ssh") / "sshd") as running:
        yield replace(running, site=replace(running.site, nodes=running.site.nodes[: len(_NAMES)]))


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


def test_of_two_operators_the_second_is_told_who_the_first_one_is_and_in_the_end_nobody_has_a_lease(sshd: Sshd) -> None:
    async def check(reached: Reach) -> None:
        async with _hold(reached, what="derive deploy r6") as first:
            assert set(first.until) == set(_NAMES)
            with pytest.raises(DeriveError) as caught:
                async with _hold(reached):
                    pytest.fail("the second one has it")
            assert "derive deploy r6" in "".join(one.message for one in caught.value.problems())
            assert await _nonce(reached) == first.fence.nonce
        assert await _nonce(reached) is None

    _at(sshd, check)


def test_a_lease_is_renewed_and_one_that_another_has_taken_is_told_and_left_to_it(sshd: Sshd) -> None:
    async def check(reached: Reach) -> None:
        told = asyncio.Event()
        async with _hold(reached, told.set, every_s=0.2) as held:
            before = dict(held.until)
            await until(lambda: held.until != before)
            held.check()
            node, folder, nonce = await reached.node("spark1"), reached.site.folder, new_nonce()
            await free_lease(node, held.fence)
            await take_lease(node, folder, nonce, this_process("another"))
            async with asyncio.timeout(20):
                await told.wait()
            assert held.is_another
            with pytest.raises(Fenced):
                held.check()
        assert await _nonce(reached) == nonce
        await free_lease(node, Fence(folder=folder, nonce=nonce))

    _at(sshd, check)


def test_a_node_that_was_lost_is_an_error_without_patience_and_reached_again_with_some(sshd: Sshd) -> None:
    async def check(reached: Reach) -> None:
        assert sshd.cut()
        lost = await reached.each(lambda node: node.run(["true"]))
        assert all(isinstance(one, DeriveError) for one in lost.values())
        reached.patience_s = 20
        said = await reached.all_of(lambda node: node.run(["true"]))
        assert {name: ran.code for name, ran in said.items()} == dict.fromkeys(_NAMES, 0)

    _at(sshd, check)
