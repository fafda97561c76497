# SPDX-License-Identifier: Apache-2.0
"""Work of several threads in one order: each job gives its pieces in turn, and jobs ahead of their time are begun.

Core: no IO. The threads decide neither a byte nor the order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of the blob, in order, and beside them bytes of the tar; those of a whole job stand for each other.

    ``is_last`` is set in the last piece of a job, and in no other.
    """

    stored: tuple[bytes, ...]
    plain: tuple[bytes, ...]
    is_last: bool = False


Job: TypeAlias = Iterator[Piece]
"""Makes its pieces as it is asked for them, by one thread at a time, and not always by the same."""


def in_order(jobs_: Iterable[Job], *, jobs: int) -> Iterator[Piece]:
    """Yield the pieces of one job after the other, worked out by so many threads.

    Each job is at most one piece ahead of its reader, and only so many jobs are begun: memory stays bounded.
    """
    ahead = 2 * max(jobs, 1)
    pending: deque[tuple[Job, Future[Piece]]] = deque()
    pool = ThreadPoolExecutor(max(jobs, 1), thread_name_prefix="member")
    try:
        for job in jobs_:
            pending.append((job, pool.submit(next, job)))
            if len(pending) > ahead:
                yield from _drained(pool, *pending.popleft())
        while pending:
            yield from _drained(pool, *pending.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _drained(pool: ThreadPoolExecutor, job: Job, future: Future[Piece]) -> Iterator[Piece]:
    while not (piece := future.result()).is_last:
        future = pool.submit(next, job)
        yield piece
    yield piece
