# SPDX-License-Identifier: Apache-2.0
"""Compilers that several steps share: in real sandboxes, over a root with this machine's own Python."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from derive.build.builders.bytecode import build
from derive.build.compile_server import CompileServers
from derive.build.context import Context
from derive.build.fetching import StoreFetch
from derive.canonical import Digest
from derive.derivations.model import ResolvedDerivation, TreeOutput
from derive.errors import BuildFailed, Interrupted
from derive.sandbox.bwrap import Bubblewrap
from derive.store.local import LocalStore
from derive.trees.listing import Listing, Symlink
from derive.trees.pack import Member, NewFile, add_members
from support.require import skip_or_fail

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
SLOW = b"x = [" + b"(a, b, c), " * 400_000 + b"]\n"
"""A source that takes a second or more."""

ENGINE = """
import sys, threading
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_compile_server import Bench
from derive.canonical import Digest
from derive.store.local import LocalStore
from derive.sandbox.probe import find_sandbox
with LocalStore(Path(sys.argv[1])) as store:
    bench = Bench(store, Digest(sys.argv[2]), find_sandbox())
    bench.compile({b"a.py": b""})
    print(store.staging.new_path().parent, flush=True)
    threading.Event().wait()
"""


class Bench:
    """Runs the builder over a store, as steps of one run do."""

    def __init__(self, store: LocalStore, root: Digest, sandbox: Bubblewrap) -> None:
        self.store = store
        self.root = root
        self.sandbox = sandbox
        self.servers = CompileServers()
        self.cancel = threading.Event()

    def compile(
        self, sources: dict[bytes, bytes], *, name: str = "a step", alone: bool = False, timeout_s: float | None = None
    ) -> Digest:
        files = [(path, NewFile(executable=False, chunks=[data])) for path, data in sources.items()]
        tree = self.store.add_listing(add_members(self.store, files))
        request = ResolvedDerivation(
            builder="bytecode",
            version=1,
            build="linux/amd64",
            host="any",
            arguments={"paths": [""], "exclude": [], "python": VERSION, "sandbox": {}},
            inputs={"source": TreeOutput(tree), "root": TreeOutput(self.root)},
        )
        context = Context(
            name=name,
            labels=(),
            store=self.store,
            fetch=StoreFetch(offline=True),
            sandbox=lambda: self.sandbox,
            log=lambda _: None,
            log_bytes=lambda _: None,
            jobs=2,
            scratch=self.store.staging.new_path(),
            cancel=self.cancel,
            timeout_s=timeout_s,
            compilers=self.servers,
        )
        output = build(request, replace(context, from_nothing=alone))["out"]
        assert isinstance(output, TreeOutput)
        return output.digest

    def servers_running(self) -> list[int]:
        return compilers(self.store.staging.new_path().parent)


def compilers(staging: Path) -> list[int]:
    """Return the bubblewraps whose scratch folder lies in an engine's staging folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mounts = (process / "mountinfo").read_text()
            if f"{staging.name}/sandbox-" in mounts and "python" in (process / "comm").read_text():
                found.append(int(process.name))
        except OSError:
            continue
    return sorted(found)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalStore, Digest]]:
    """A root with this machine's Python and as much of its library as the compiler imports."""
    program = Path(f"/usr/bin/python{VERSION}")
    if not program.exists():
        skip_or_fail(f"these tests need {program}")
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    library = Path(f"/usr/lib/python{VERSION}")
    files = [program, *(Path(path) for path in re.findall(r"(/\S+) \(0x", needed))]
    for folder in ("", "encodings", "importlib", "collections", "re", "json"):
        files += sorted((library / folder).glob("*.py"))
    members: dict[bytes, Member] = {
        os.fsencode(os.path.realpath(file)).lstrip(b"/"): NewFile(
            executable=os.access(file, os.X_OK), chunks=[file.read_bytes()]
        )
        for file in files
    }
    for file in files:
        place = os.fsencode(os.path.realpath(file.parent) + "/" + file.name).lstrip(b"/")
        if place not in members:
            members[place] = Symlink(os.fsencode(os.path.realpath(file)))
    members |= {name: Symlink(b"usr/" + name) for name in (b"bin", b"lib", b"lib64")}
    with LocalStore(tmp_path_factory.mktemp("store")) as store:
        yield store, store.add_listing(add_members(store, members.items()))


@pytest.fixture
def bench(root: tuple[LocalStore, Digest], sandbox: Bubblewrap) -> Iterator[Bench]:
    found = Bench(*root, sandbox)
    try:
        yield found
    finally:
        found.servers.close()


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def some(number: int) -> dict[bytes, bytes]:
    return {b"p/m%d.py" % n: b"names = {'a', 'b', 'c%d'}\n" % (n + number) for n in range(40)}


def test_steps_one_after_another_have_one_server_which_ends_with_the_run(bench: Bench) -> None:
    first = bench.compile(some(0))
    running = bench.servers_running()
    second = bench.compile(some(0) | {b"q.py": b"y = 1\n"})
    assert bench.servers_running() == running
    assert running
    listing = bench.store.listing(second)
    assert set(bench.store.listing(first).items()) <= set(listing.items())
    bench.servers.close()
    assert bench.servers_running() == []


def test_two_threads_at_once_and_a_step_alone_get_the_same_bytes(bench: Bench) -> None:
    alone = [bench.compile(some(number), alone=True) for number in (1, 2)]
    assert bench.servers_running() == []
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda n: bench.compile(some(n), name=f"step {n}"), (1, 2)))
    assert together == alone


def test_no_sources_but_broken_ones_give_an_empty_tree(bench: Bench) -> None:
    assert bench.store.listing(bench.compile({b"old.py": b"print 'x'\n"})) == Listing.of({})


def test_a_compiler_that_is_killed_is_told_with_the_file_and_the_next_step_goes_on(bench: Bench) -> None:
    def kill() -> None:
        wait_for(lambda: len(bench.servers_running()) > 1)
        os.kill(bench.servers_running()[-1], signal.SIGKILL)  # the newest: the fork

    bench.compile({b"a.py": b""})
    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(BuildFailed, match=r"crashed at lib/slow\.py") as failure:
        bench.compile({b"lib/slow.py": SLOW})
    killer.join()
    assert failure.value.detail == ("ended with -9",)
    assert bench.servers_running() == []
    bench.compile({b"b.py": b"z = 3\n"})


def test_a_server_that_is_killed_fails_the_step_that_has_it_and_no_other(bench: Bench) -> None:
    def kill() -> None:
        wait_for(lambda: len(bench.servers_running()) > 1)
        os.kill(bench.servers_running()[0], signal.SIGKILL)  # the oldest: the parent of the forks

    bench.compile({b"a.py": b""})
    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(BuildFailed, match="byte-code compiler of a step failed"):
        bench.compile({b"slow.py": SLOW})
    killer.join()
    bench.compile({b"c.py": b"z = 4\n"})


def test_a_step_that_takes_too_long_or_is_given_up_ends_its_server(bench: Bench) -> None:
    with pytest.raises(BuildFailed, match="hangs"):
        bench.compile({b"slow.py": SLOW}, timeout_s=0.2)
    assert bench.servers_running() == []
    bench.cancel.set()
    with pytest.raises(Interrupted):
        bench.compile({b"slow2.py": SLOW + b"1\n"})
    assert bench.servers_running() == []


@pytest.mark.usefixtures("sandbox")
def test_an_engine_that_is_killed_leaves_no_server_behind(root: tuple[LocalStore, Digest]) -> None:
    store, digest = root
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    line = [sys.executable, "-c", ENGINE, str(store.root), digest.hex, *paths]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout is not None
        staging = Path(engine.stdout.readline().strip())
        assert compilers(staging)
        engine.kill()
    wait_for(lambda: not compilers(staging))
