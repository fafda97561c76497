# SPDX-License-Identifier: Apache-2.0
"""Several requests to a repository at once, and what their failures mean for a person.

Edge: threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from derive.errors import Corrupt, DeriveError, Unavailable
from derive.net.failures import Failure, Skipped, Wrong
from derive.oci.remote import Remote

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 6


def at_once(remote: Remote, act: Callable[[T], R], things: Iterable[T]) -> list[R]:
    """Do something with each, some of them at once, and return what came of each, in order.

    A failure of one ends none of the others: what they bring need not be brought again.

    Raises:
        Failure: the first one, when all have ended.
    """

    def one(thing: T) -> R | Failure:
        try:
            return act(thing)
        except Failure as failure:
            return failure

    with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="push") as pool:
        futures = [pool.submit(one, thing) for thing in things]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
            found = [future.result() for future in futures if future.done()]
        except BaseException:
            remote.client.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    failures = [item for item in found if isinstance(item, Failure)]
    if failures:
        raise next((failure for failure in failures if not isinstance(failure, Skipped)), failures[0])
    return [item for item in found if not isinstance(item, Failure)]


@contextmanager
def told(remote: Remote, message: str) -> Iterator[None]:
    """Turn a registry's failure into an error for a person."""
    try:
        yield
    except Failure as failure:
        raise _verdict(remote, message, failure) from failure


def _verdict(remote: Remote, message: str, failure: Failure) -> DeriveError:
    detail = [f"tried     {remote.place}: {failure.reason}"]
    if isinstance(failure, Wrong):
        return Corrupt(f"{remote.repository}: {message}", detail=[*failure.detail, *detail])
    return Unavailable(f"{remote.repository}: {message}", detail=detail, hint=_next(remote, failure))


def _next(remote: Remote, failure: Failure) -> str:
    """Return what a person can do; what a registry refuses it refuses the next time, too."""
    status = failure.status or 0
    if status == 405:
        return "this registry takes no writes (it may be read-only): name another one with --registry"
    if status in (401, 403):
        hint = f"may you write there? Then run: docker login {remote.host}"
        return hint if status == 401 else f"{hint}; a registry that is read-only answers so, too"
    if 400 <= status < 500 and status != 429:
        return "the registry refuses this, and will again: look at what it says, and at the repository's name"
    if status >= 500:
        return "does this registry take writes, and has it space? Run it again then: what it took stays there"
    return "run it again when the registry answers: what it took stays there"
