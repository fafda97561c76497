# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while nodes are changed, with real signals to this process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from derive.deploy.interrupts import interrupts

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _nothing_is_ignored() -> Iterator[None]:
    """Give signals what they do in a terminal: under nohup SIGHUP is ignored, and would stay so."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_each_interrupt_is_counted_and_raises_nothing(number: int) -> None:
    async def main() -> None:
        heard: asyncio.Queue[int] = asyncio.Queue()
        with interrupts(heard.put_nowait):
            for count in (1, 2):
                os.kill(os.getpid(), number)
                assert await heard.get() == count

    asyncio.run(main())


def test_afterwards_signals_do_what_they_did_before() -> None:
    async def main() -> None:
        with interrupts(lambda _: None):
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL

    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    asyncio.run(main())
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


def test_a_signal_that_is_ignored_stays_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    counts: list[int] = []

    async def main() -> None:
        with interrupts(counts.append):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.05)

    asyncio.run(main())
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert not counts
