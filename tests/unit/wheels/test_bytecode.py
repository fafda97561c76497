# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
import marshal
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType

import pytest

from derive.canonical import sha256
from derive.errors import BuildFailed
from derive.trees.listing import File, Listing, Symlink
from derive.wheels.bytecode import Skipped, byte_code_path, command, read_report, script, sources, worklist

FILE = File(executable=False, size=0, sha256=sha256(b""))
ONE = b"""\
import os
NAMES = {'alpha', 'beta', 'gamma'}
def f(path):
    return os.path, path in {'x', 'y', 'z'}
"""
TWO = b"""\
path = 'beta'
class C:
    NAMES = ('alpha', 'gamma', 'os', 'x')
    def f(self):
        return self.path
"""
SOURCES = {
    b"site/one.py": ONE,
    b"site/two.py": TWO,
    b"site/p\xc3\xa4/__init__.py": b'"""A docstring."""\nassert True\n',
    b"site/empty.py": b"",
    b"site/warns.py": b"x = '\\d'\n",
}
BROKEN = {b"site/old.py": b"print 'two'\n", b"site/nul.py": b"x = '\0'\n"}


def interpreters() -> list[str]:
    """Return the Python at hand, and a 3.13 when there is one that runs."""
    found = [sys.executable]
    other = shutil.which("python3.13")
    if other:
        done = subprocess.run(
            [other, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=False
        )
        pyenv = Path.home() / ".pyenv" / "versions"
        found += [done.stdout.strip()] if not done.returncode else [str(p) for p in pyenv.glob("3.13*/bin/python3.13")]
    return found


@pytest.fixture(params=interpreters())
def python(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Folder:
    """A source tree on disk, compiled with a work list, a job count and a hash seed."""

    def __init__(self, top: Path, files: dict[bytes, bytes]) -> None:
        self.top = top
        self.runs = 0
        for path, data in files.items():
            file = top / "tree" / path.decode()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        (top / "compile.py").write_bytes(script())

    def run(
        self, python: str, paths: Sequence[bytes], *, jobs: int = 1, **environment: str
    ) -> tuple[dict[bytes, bytes], bytes]:
        self.runs += 1
        out = self.top / f"out{self.runs}"
        out.mkdir()
        work = self.top / "work"
        work.write_bytes(worklist(paths))
        line = command(
            python=python, script=str(self.top / "compile.py"), worklist=str(work), tree=str(self.top / "tree"),
            out=str(out), jobs=jobs,
        )  # fmt: skip
        done = subprocess.run(line, capture_output=True, env=environment, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        return {bytes(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}, done.stdout


def test_alone_or_among_others_in_any_order_with_any_seed_and_jobs_the_bytes_are_the_same(
    python: str, tmp_path: Path
) -> None:
    """One process that compiles many files gives other bytes on CPython 3.13: every file has its own."""
    folder = Folder(tmp_path, SOURCES)
    paths = sorted(SOURCES)
    reference, _ = folder.run(python, paths)
    assert len(reference) == len(SOURCES)
    alone: dict[bytes, bytes] = {}
    for path in paths:
        alone |= folder.run(python, [path])[0]
    assert alone == reference
    for jobs, seed in ((1, "1"), (2, "0"), (4, "random")):
        environment = {
            "PYTHONHASHSEED": seed,
            "LANG": "C",
            "PYTHONOPTIMIZE": "2",
            "PYTHONWARNINGS": "error",
            "HOME": "/x",
        }
        assert folder.run(python, paths[::-1], jobs=jobs, **environment)[0] == reference


def test_byte_code_is_checked_by_hash_and_names_the_final_path(python: str, tmp_path: Path) -> None:
    got, _ = Folder(tmp_path, SOURCES).run(python, [b"site/one.py"])
    ((path, data),) = got.items()
    version = path.decode().rsplit(".", 2)[1].removeprefix("cpython-3")
    assert path == byte_code_path(b"site/one.py", f"3.{version}")
    assert int.from_bytes(data[4:8], "little") == 0b11
    assert str(tmp_path).encode() not in data
    if python == sys.executable:
        assert data[8:16] == importlib.util.source_hash(SOURCES[b"site/one.py"])
        code = marshal.loads(data[16:])
        assert isinstance(code, CodeType)
        assert code.co_filename == "/site/one.py"


def test_the_interpreter_loads_it_and_compiles_nothing_again(python: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path, SOURCES)
    got, _ = folder.run(python, [b"site/one.py"])
    for path, data in got.items():
        target = tmp_path / "tree" / path.decode()
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
    check = "import sys; sys.path.insert(0, sys.argv[1]); import one; print(one.f.__code__.co_filename)"
    line = [python, "-B", "-c", check, str(tmp_path / "tree" / "site")]
    done = subprocess.run([*line], capture_output=True, text=True, check=True, env={"PYTHONVERBOSE": "1"})
    assert "one.py" in done.stdout
    assert "code object from" in done.stderr
    assert f"matches {tmp_path / 'tree' / 'site' / 'one.py'}" in done.stderr


def test_a_file_that_does_not_compile_is_listed_in_order_and_skipped(python: str, tmp_path: Path) -> None:
    files = SOURCES | BROKEN
    paths = tuple(sorted(files))
    got, report = Folder(tmp_path, files).run(python, paths, jobs=3)
    assert len(got) == len(SOURCES)
    skipped = read_report(paths, report)
    assert [item.path for item in skipped] == sorted(BROKEN)
    assert "SyntaxError" in skipped[1].reason
    assert "line 1" in skipped[1].reason


def test_a_source_that_is_not_there_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "work").write_bytes(worklist([b"absent.py"]))
    (tmp_path / "compile.py").write_bytes(script())
    line = command(
        python=sys.executable, script=str(tmp_path / "compile.py"), worklist=str(tmp_path / "work"), tree=str(tmp_path),
        out=str(tmp_path), jobs=1,
    )  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "absent.py" in done.stderr
    assert "FileNotFoundError" in done.stderr


def test_sources_are_the_regular_python_files_below_the_paths_but_for_excluded_ones() -> None:
    names = (b"a/x.py", b"a/y.txt", b"a/__pycache__/z.py", b"a/tests/t.py", b"ab/x.py", b"b.py", b"a/\xff.py")
    listing = Listing.of([*((name, FILE) for name in names), (b"a/l.py", Symlink(b"x.py"))])
    assert sources(listing, [b"a"]) == (b"a/tests/t.py", b"a/x.py", b"a/\xff.py")
    assert sources(listing, [b"a"], ["a/tests/*", "a/%FF.py"]) == (b"a/x.py",)
    assert sources(listing, [b"b.py", b"ab"]) == (b"ab/x.py", b"b.py")
    assert len(sources(listing)) == 5


def test_byte_code_lies_beside_its_source() -> None:
    assert byte_code_path(b"a/b.c.py", "3.13") == b"a/__pycache__/b.c.cpython-313.pyc"
    assert byte_code_path(b"x.py", "3.12") == b"__pycache__/x.cpython-312.pyc"


def test_a_report_is_read_and_anything_else_is_refused() -> None:
    paths = (b"a.py", b"b.py")
    assert read_report(paths, b"1 SyntaxError: bad (line 3)\n") == (
        Skipped(path=b"b.py", reason="SyntaxError: bad (line 3)"),
    )
    for output in (b"hello\n", b"2 x\n", b"-1 x\n"):
        with pytest.raises(BuildFailed):
            read_report(paths, output)
