# SPDX-License-Identifier: Apache-2.0
"""A fetch that is killed in the middle leaves no git behind and nothing in the store but the next one's way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.git.fetch import fetch_git, resolve_git
from derive.git.model import GitRequest
from derive.store.local import LocalStore
from support.folders import Plain
from support.git_server import NEUTRAL, GitHttp, Upstream

FETCH = """
import sys
from pathlib import Path
from derive.git.fetch import resolve_git
from derive.git.model import GitRequest
from derive.store.local import LocalStore

with LocalStore(Path(sys.argv[1])) as store:
    try:
        resolve_git(store, GitRequest(name="demo", urls=(sys.argv[2],)))
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHttp]:
    (tmp_path / "served").mkdir()
    with GitHttp(tmp_path / "served") as running:
        yield running


def gits(store: Path) -> list[int]:
    """Return the processes that work in a store's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(store / "tmp") in words:
                found.append(int(entry.name))
    return found


def wait(what: str, until: float = 10.0) -> Iterator[None]:
    """Yield until something is true; fail when it takes too long."""
    end = time.monotonic() + until
    while time.monotonic() < end:
        yield
        time.sleep(0.02)
    pytest.fail(f"not within {until} s: {what}")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_fetch_that_is_stopped_leaves_nothing_and_the_next_one_works(
    number: signal.Signals, server: GitHttp, tmp_path: Path
) -> None:
    commit = Upstream(server.root / "demo.git").commit({b"a": Plain(b"1")})
    server.told.faults[:] = ["hang"]
    root, url = tmp_path / "store", server.url("demo.git")
    process = subprocess.Popen([sys.executable, "-c", FETCH, str(root), url], env={**os.environ, **NEUTRAL})
    for _ in wait("git asks for the pack"):
        if not server.told.faults:
            break
    assert len(gits(root)) >= 2, "the guard, git and its helper"
    process.send_signal(number)
    assert process.wait(10) == (130 if number == signal.SIGINT else -signal.SIGKILL)
    for _ in wait("no git is left"):
        if not gits(root):
            break
    with LocalStore(root) as store:
        assert list((root / "tmp").iterdir()) == []
        assert list((root / "blobs" / "sha256").iterdir()) == []
        pin = resolve_git(store, GitRequest(name="demo", urls=(url,)))
        assert pin.commit == commit
        assert fetch_git(store, pin, (url,)).tree == pin.nar
