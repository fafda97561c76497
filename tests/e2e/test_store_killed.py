# SPDX-License-Identifier: Apache-2.0
"""A store whose processes are killed at every step of the write path, run together, or run out of disk."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from derive.build.execute import is_present
from derive.canonical import Digest, sha256
from derive.derivations.model import parse_output
from derive.store.local import LocalStore
from derive.store.memory import MemoryStore
from derive.trees.nar import nar_digest
from derive.trees.pack import add_members
from derive.trees.scan import scan_folder
from support.require import skip_or_fail

DRIVER = Path(__file__).parents[1] / "support" / "killed_driver.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(DRIVER.parents[1]), *sys.path])}
HOLD = "import sys, pathlib, support.killed_driver as d; d.hold(pathlib.Path(sys.argv[1]), 'x')"
SAMPLES = 70  # kills of one sweep: with the checks after each, a few seconds

Outcome = dict[str, Any]


class Server:
    """The driver, which forks a process for each job."""

    def __init__(self, *before: str) -> None:
        self._process = subprocess.Popen(
            [*before, sys.executable, str(DRIVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )

    def run(self, *jobs: Mapping[str, object]) -> list[Outcome]:
        """Run jobs at once, and return how each ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(jobs) + "\n")
        self._process.stdin.flush()
        outcomes: list[Outcome] = json.loads(self._process.stdout.readline())
        return outcomes

    def one(self, job: str, root: Path, **more: object) -> Outcome:
        """Run one job."""
        return self.run({"job": job, "root": str(root), **more})[0]

    def stop(self) -> None:
        """End the driver."""
        with self._process, contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()

    def kill(self) -> None:
        """Kill the driver, whose child lives on for the rest of its job."""
        self._process.kill()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def check_store(root: Path) -> None:
    """Open a store, and find that everything it says it holds is there and is what it is called."""
    with LocalStore(root) as store:
        for path in (root / "blobs" / "sha256").iterdir():
            assert sha256(path.read_bytes()).hex == path.name
        for path in (root / "listings").iterdir():
            digest = Digest(path.stem)
            listing = store.listing(digest)
            if store.has_tree(digest):
                assert nar_digest(listing, lambda _, file: store.read(file)) == digest
        for path in (root / "trees").iterdir():
            with scan_folder(path) as scan:
                scanned, memory = MemoryStore(), scan.members()
                assert scanned.add_listing(add_members(scanned, memory)).hex == path.name
        for _, outputs in rows(root, "SELECT resolved, outputs FROM realisations"):
            assert all(is_present(store, parse_output(text)) for text in json.loads(outputs).values())
        for entry in json.loads((root / "index.json").read_bytes())["manifests"]:
            assert store.has_blob(Digest.parse(entry["digest"]))
        assert len(list((root / "tmp").glob("*.lock"))) <= 1, "what the killed process left was not swept"
    assert list((root / "tmp").iterdir()) == []


def rows(root: Path, sql: str) -> list[tuple[Any, ...]]:
    if not (root / "derive.sqlite").exists():
        return []
    connection = sqlite3.connect(root / "derive.sqlite")
    try:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'realisations'").fetchall()
        return connection.execute(sql).fetchall() if tables else []
    finally:
        connection.close()


def check_all_is_present(root: Path) -> None:
    """Find that no listing lacks a blob, in a store from which nothing was removed."""
    with LocalStore(root) as store:
        assert all(store.has_tree(Digest(path.stem)) for path in (root / "listings").iterdir())


def sampled(steps: int) -> list[int]:
    """Return up to SAMPLES of the steps, first and last among them, others in each run of the tests."""
    inner = range(2, steps)
    chosen = random.sample(inner, min(SAMPLES, len(inner)))
    return sorted({1, steps, *chosen})


@pytest.mark.parametrize("job", ["fill", "move"])
def test_a_kill_at_any_step_leaves_a_sound_store_and_the_next_run_finishes(
    tmp_path: Path, server: Server, job: str
) -> None:
    whole = server.one(job, tmp_path / "whole")
    assert whole["killed"] is None
    check_store(tmp_path / "whole")
    for fatal in sampled(whole["steps"]):
        root = tmp_path / str(fatal)
        outcome = server.one(job, root, fatal=fatal)
        assert outcome == {"killed": signal.SIGKILL}, f"step {fatal} of {whole['steps']}"
        check_store(root)
        if job == "fill":
            check_all_is_present(root)
        assert server.one(job, root)["digests"] == whole["digests"], f"after step {fatal} of {whole['steps']}"
        check_store(root)
        assert tops_are_read_only(root)


def tops_are_read_only(root: Path) -> bool:
    return all(path.stat().st_mode & 0o222 == 0 for path in (root / "trees").iterdir())


def test_a_store_killed_again_and_again_is_sound_in_the_end(tmp_path: Path, server: Server) -> None:
    whole = server.one("fill", tmp_path / "whole")
    root = tmp_path / "store"
    chance = random.Random(1)
    for _ in range(25):
        server.one(chance.choice(["fill", "move"]), root, fatal=chance.randrange(1, 60), name=f"{chance.random()}")
    check_store(root)
    assert server.one("fill", root)["digests"] == whole["digests"]
    check_store(root)


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_from_outside_at_any_time_leaves_a_sound_store(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(4):
        server = Server()
        timer = threading.Timer(0.3 + chance.random() * 0.3, server.kill)
        timer.start()
        try:
            while True:
                server.one("fill", tmp_path / "store", name=f"{chance.random()}")
        except (json.JSONDecodeError, BrokenPipeError):
            timer.join()
        server.stop()
        settle(tmp_path / "store")
        check_store(tmp_path / "store")


def settle(root: Path) -> None:
    """Wait for the server's child, which outlives it by the rest of its job."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with LocalStore(root):
            if len(list((root / "tmp").glob("*.lock"))) == 0:
                return
        time.sleep(0.02)


def test_processes_that_make_one_store_at_once_all_succeed_and_lose_nothing(tmp_path: Path, server: Server) -> None:
    for attempt in range(6):
        root = tmp_path / str(attempt)
        outcomes = server.run(*({"job": "fill", "root": str(root), "name": f"image-{own}"} for own in range(4)))
        assert [outcome.get("error") for outcome in outcomes] == [None] * 4
        assert len({json.dumps(outcome["digests"]) for outcome in outcomes}) == 1
        check_store(root)
        check_all_is_present(root)
        index = json.loads((root / "index.json").read_bytes())["manifests"]
        names = [entry["annotations"]["org.opencontainers.image.ref.name"] for entry in index]
        assert names == [f"image-{own}" for own in range(4)]
        assert len(list((root / "trees").iterdir())) == 1


def test_a_process_is_not_disturbed_by_others_that_are_killed_beside_it(tmp_path: Path, server: Server) -> None:
    whole = server.one("fill", tmp_path / "whole")
    for attempt in range(8):
        root = tmp_path / str(attempt)
        fatal = [1 + whole["steps"] * part // 3 - attempt * 5 for part in (1, 2, 3)]
        alive, *dying = server.run(
            {"job": "fill", "root": str(root)}, *({"job": "fill", "root": str(root), "fatal": step} for step in fatal)
        )
        assert alive.get("digests") == whole["digests"], alive
        assert {outcome["killed"] for outcome in dying} <= {signal.SIGKILL, None}
        check_store(root)


def test_the_death_of_a_lock_holder_lets_the_next_one_in(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with LocalStore(root):
        pass
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(root)], env=ENVIRONMENT)
    try:
        deadline = time.monotonic() + 30
        while not (root / "held").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        entered = threading.Event()

        def enter() -> None:
            with LocalStore(root) as store, store.locked("x"):
                entered.set()

        waiting = threading.Thread(target=enter)
        waiting.start()
        assert not entered.wait(0.3), "two processes held one lock"
    finally:
        holder.kill()
        holder.wait()
    assert entered.wait(20)
    waiting.join()


@pytest.mark.parametrize("left", [0, 20_000, 100_000, 400_000, 1_300_000, 2_000_000, 2_700_000, 3_000_000])
def test_a_full_disk_is_an_error_and_costs_nothing_that_was_finished(tmp_path: Path, left: int) -> None:
    room = tmp_path / "room"
    room.mkdir()
    mount = f'mount -t tmpfs -o size=12m none "{room}" && exec "$@"'
    private = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh"]
    if subprocess.run([*private, "true"], capture_output=True, check=False).returncode:
        skip_or_fail("no file system can be mounted in a namespace of one's own here")
    server = Server(*private)
    outcome = server.one("fill_up", room / "store", name=str(left))
    server.stop()
    found = outcome["digests"]
    assert found.get("error") is None
    assert found.get("refused", "no space left").startswith("no space left")
    assert "refused" in found or left > 2_500_000
    assert found["wrong"] == ""
    assert found["tmp"] == ""
    assert found["tree"]
