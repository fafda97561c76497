# SPDX-License-Identifier: Apache-2.0
"""The engine of this checkout, derived, in the outer sandbox: it derives what it derives here, and sees no host."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from derive.engine.outer import run, run_program
from derive.errors import InputErrors
from derive.trees.materialise import remove_folder
from support.engine import BuiltEngine
from support.small import Small, small_project

if TYPE_CHECKING:
    from sandbox.conftest import Survivors

pytestmark = pytest.mark.sandbox

NOBODY = 65534

LOOK = """
import os, socket, sys
print(sorted(os.listdir("/work")), os.getuid(), os.uname().nodename, sorted(os.environ))
print([place for place in ("/etc/hostname", *sys.argv[3:]) if os.path.exists(place)])
read = []
for process in filter(str.isdigit, os.listdir("/proc")):
    for name in ("root/etc/passwd", "cwd/", "environ", "fd/0", "mem", "maps"):
        place = f"/proc/{process}/{name}"
        try:
            found = os.listdir(place) if name == "cwd/" else open(place, "rb").read(1)
        except OSError:
            continue
        if found and int(process) != os.getpid():
            read.append(place)
print(read)
written = []
for place in ("/x", "/usr/x", "/etc/x", "/work/x", "/work/project/x"):
    try:
        open(place, "w")
        written.append(place)
    except OSError:
        pass
print(written)
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)
except OSError as error:
    print(error.errno)
null = os.stat("/dev/null")
print(null.st_ino == int(sys.argv[2]) and null.st_uid == os.getuid())
import ctypes, bz2, lzma, sqlite3, ssl, zlib, readline
print(sqlite3.connect("/work/store/t.sqlite").execute("SELECT 1").fetchone(), sys.flags.isolated, sys.path[0])
"""

BUILDS = """
from derive.sandbox.probe import find_sandbox
from derive.sandbox.spec import MakeLink, ReadOnlyBind, SandboxSpec, system_mounts
root = (ReadOnlyBind(b"/usr", b"/usr"), *(MakeLink(b"usr/" + name, b"/" + name) for name in (b"lib", b"lib64")))
argv = ("/usr/bin/sleep", "MARKER")
find_sandbox().run(
    SandboxSpec(mounts=(*root, *system_mounts(None)), environment=(), argv=argv, cwd=b"/"), log=print
)
"""


@dataclass(frozen=True, slots=True)
class Given:
    """What an engine is run over: folders that whoever runs it can enter."""

    place: Path
    root: Path

    @property
    def project(self) -> Path:
        return self.place / "project"

    @property
    def store(self) -> Path:
        return self.place / "store"

    @property
    def archive(self) -> Path:
        return self.place / "archive"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def open_root(built_engine: BuiltEngine) -> Iterator[Path]:
    """The engine's root where everybody can enter, which pytest's own folder does not allow."""
    place = Path(tempfile.mkdtemp(prefix="derive-root-"))
    place.chmod(0o755)
    subprocess.run(["cp", "-al", str(built_engine.root), str(place / "root")], check=True)
    yield place / "root"
    shutil.rmtree(place)


@pytest.fixture(params=["caller", "nobody"])
def given(request: pytest.FixtureRequest, built_engine: BuiltEngine) -> Iterator[Given]:
    """Folders of the caller; and, where that is root, of a user who is nobody: the engine runs as the store's owner."""
    if request.param == "nobody" and os.geteuid() != 0:
        pytest.skip("only root runs an engine as somebody else")
    if request.param == "nobody":
        request.getfixturevalue("ordinary_user")
    place = Path(tempfile.mkdtemp(prefix="derive-outer-"))
    place.chmod(0o755)
    root = request.getfixturevalue("open_root") if request.param == "nobody" else built_engine.root
    found = Given(place, root)
    found.project.mkdir()
    found.store.mkdir()
    if request.param == "nobody":
        os.chown(found.store, NOBODY, NOBODY)
    yield found
    remove_folder(place)


def run_read(given: Given, *arguments: str, archive: Path | None = None) -> tuple[int, str]:
    with tempfile.TemporaryFile() as said:
        code = run(given.root, arguments, given.project, given.store, None, archive, stdout=said.fileno())
        said.seek(0)
        return code, said.read().decode().strip()


def test_the_derived_engine_derives_offline_what_the_host_s_engine_derives(given: Given, small: Small) -> None:
    expected = small.derive("image").answer
    shutil.copytree(small.root, given.project, dirs_exist_ok=True)
    shutil.copytree(small.store / "blobs", given.archive / "blobs")
    assert run_read(given, "image", "--offline", archive=given.archive) == (0, expected)
    owner = NOBODY if given.store.stat().st_uid == NOBODY else os.geteuid()
    assert {path.stat().st_uid for path in given.store.iterdir()} == {owner}


def test_the_derived_engine_knows_itself_by_the_derivation_that_made_it(
    built_engine: BuiltEngine, tmp_path: Path
) -> None:
    given = Given(tmp_path, built_engine.root)
    given.project.mkdir()
    given.store.mkdir()
    code, said = run_read(given, "engine")
    assert code == 0
    assert f"derivation  {built_engine.derivation.hex}" in said


def test_of_the_host_nothing_can_be_read_or_reached(given: Given) -> None:
    with tempfile.TemporaryFile() as said, socket.create_server(("127.0.0.1", 0)) as listening:
        port, node = str(listening.getsockname()[1]), Path("/dev/null").stat().st_ino
        argv = ("/usr/bin/python3.13", "-I", "-B", "-c", LOOK, port, str(node), __file__, sys.executable)
        assert run_program(given.root, argv, given.project, given.store, stdout=said.fileno()) == 0
        said.seek(0)
        lines = said.read().decode().splitlines()
    variables = "['DERIVE_STORE', 'HOME', 'LC_ALL', 'PATH', 'PWD', 'TZ']"
    assert lines == [
        f"['home', 'project', 'store'] 1000 derive {variables}",
        *("[]", "[]", "[]"),
        "111",
        "False",
        "(1,) 1 /usr/lib/python313.zip",
    ]


def test_answers_can_be_written_where_they_are_to_go(given: Given) -> None:
    out = given.place / "out"
    out.mkdir()
    line = "open('/work/out/answer', 'x')"
    request = ("/usr/bin/python3.13", "-I", "-c", line)
    assert run_program(given.root, request, given.project, given.store, out) == 0
    assert (out / "answer").exists()


def test_an_engine_ends_as_its_command_ends(built_engine: BuiltEngine, tmp_path: Path) -> None:
    given = Given(tmp_path, built_engine.root)
    given.project.mkdir()
    given.store.mkdir()
    assert run_read(given, "show") == (2, "")
    assert run_read(given, "--version")[0] == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_an_engine_ends_with_whoever_runs_it_and_its_builds_with_it(
    built_engine: BuiltEngine, tmp_path: Path, sleepers: Survivors, number: signal.Signals
) -> None:
    argv = ("/usr/bin/python3.13", "-I", "-c", BUILDS.replace("MARKER", sleepers.marker))
    text = f"""
import signal
from pathlib import Path
from derive.engine.outer import run_program
signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
run_program(Path({str(built_engine.root)!r}), {argv!r}, Path({str(tmp_path)!r}), Path({str(tmp_path)!r}))
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # what the killed leave goes with the test
    with subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.DEVNULL, env=environment) as running:
        assert sleepers.there_within(20)
        running.send_signal(number)
        running.wait(20)
    assert sleepers.gone_within(20)


def test_folders_that_are_not_there_are_named_all_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        run(tmp_path / "root", (), tmp_path, tmp_path / "store", archive=tmp_path / "capsule.tar")
    assert [problem.where for problem in caught.value.problems()] == [
        str(tmp_path / name) for name in ("capsule.tar", "root", "store")
    ]
