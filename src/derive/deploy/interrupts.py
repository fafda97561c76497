# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while nodes are changed: the first one begins going back, further ones are told so, the third gives up.

Edge: signals. A terminal that is gone (SIGHUP) and TERM count as Ctrl-C does.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GIVE_UP = 3
"""Interrupts after which even going back is given up."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts(on: Callable[[int], None]) -> Iterator[None]:
    """Call ``on`` in the running loop with how many interrupts there were; afterwards they do what they did before."""
    loop, count = asyncio.get_running_loop(), 0

    def came() -> None:
        nonlocal count
        count += 1
        on(count)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = [number for number in _SIGNALS if before[number] != signal.SIG_IGN]
    for number in taken:
        loop.add_signal_handler(number, came)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
