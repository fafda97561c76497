# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while nodes are changed, with real signals to this process."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from derive.deploy.interrupts import interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_interrupt_is_counted_and_raises_nothing(number: int) -> None:
    async def main() -> None:
        heard: asyncio.Queue[int] = asyncio.Queue()
        with interrupts(heard.put_nowait):
            for count in (1, 2):
                os.kill(os.getpid(), number)
                assert await heard.get() == count

    asyncio.run(main())


def test_afterwards_signals_do_what_they_did_before() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    async def main() -> None:
        with interrupts(lambda _: None):
            assert signal.getsignal(signal.SIGTERM) != before[signal.SIGTERM]

    asyncio.run(main())
    assert {number: signal.getsignal(number) for number in before} == before or before[signal.SIGINT] is not None


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    counts: list[int] = []

    async def main() -> None:
        with interrupts(counts.append):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.05)

    try:
        asyncio.run(main())
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not counts
