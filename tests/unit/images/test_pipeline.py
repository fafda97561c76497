# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from derive.errors import Corrupt
from derive.images.pipeline import Job, Piece, in_order


def job(*stored: bytes) -> Job:
    """A job of several pieces."""
    for number, part in enumerate(stored, 1):
        yield Piece((part,), (), is_last=number == len(stored))


def joined(jobs_: Iterator[Job], *, jobs: int) -> list[bytes]:
    return [b"".join(piece.stored) for piece in in_order(jobs_, jobs=jobs)]


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_the_pieces_of_a_job_come_together_and_jobs_in_order_whatever_the_number_of_workers(jobs: int) -> None:
    parts = [[b"%d.%d" % (n, piece) for piece in range(1 + n % 4)] for n in range(40)]
    assert joined((job(*part) for part in parts), jobs=jobs) == [piece for part in parts for piece in part]


def test_no_job_is_more_than_one_piece_ahead_and_few_are_begun() -> None:
    made: list[int] = []

    def endless(number: int) -> Job:
        while True:
            made.append(number)
            yield Piece((b"x",), ())

    stream = in_order(map(endless, range(100)), jobs=2)
    for _ in range(50):
        next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert {number: made.count(number) for number in range(1, 100) if number in made} == dict.fromkeys(range(1, 5), 1)
    assert made.count(0) <= 51


def test_workers_are_gone_when_the_reader_fails_or_stops() -> None:
    def failing() -> Iterator[Job]:
        yield job(b"x")
        raise Corrupt("bad")

    with pytest.raises(Corrupt):
        joined(failing(), jobs=3)
    stream = in_order((job(b"x") for _ in range(100)), jobs=3)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    time.sleep(0.01)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("member")]


def test_what_goes_wrong_in_a_job_comes_after_the_pieces_before_it() -> None:
    def failing() -> Job:
        yield Piece((b"b",), ())
        raise Corrupt("bad")

    stream = in_order(iter([job(b"a"), failing(), job(b"c")]), jobs=2)
    assert [next(stream).stored, next(stream).stored] == [(b"a",), (b"b",)]
    with pytest.raises(Corrupt, match="bad"):
        next(stream)
