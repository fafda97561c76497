# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import importlib.util
import json
import marshal
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType

import pytest

from derive.canonical import sha256
from derive.errors import BuildFailed
from derive.trees.listing import File, Listing, Symlink
from derive.wheels.bytecode import PAUSE, Replies, Reply, byte_code_path, command, request, script, sources
from support.golden import check_golden

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


class Compiler:
    """Runs the script over requests that lie in a file; its replies go to another."""

    def __init__(self, top: Path) -> None:
        self.top = top
        (top / "compile.py").write_bytes(script())

    def replies(
        self,
        python: str,
        requests: bytes,
        *,
        jobs: int = 1,
        largest: int = -1,
        environment: Mapping[str, str] | None = None,
    ) -> list[Reply]:
        asked, told = self.top / "requests", self.top / "replies"
        asked.write_bytes(requests)
        line = command(
            python=python, script=str(self.top / "compile.py"), requests=str(asked), replies=str(told), jobs=jobs
        )
        limit = () if largest < 0 else ("prlimit", f"--fsize={largest}")
        done = subprocess.run([*limit, *line], capture_output=True, env=environment, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        return sorted(Replies().take(told.read_bytes()), key=lambda reply: reply.place)

    def run(self, python: str, paths: Sequence[bytes], *, jobs: int = 1, **environment: str) -> dict[bytes, bytes]:
        asked = b"".join(request(path, SOURCES[path]) for path in paths)
        *found, last = self.replies(python, asked + PAUSE, jobs=jobs, environment=environment)
        assert last == Reply(place=len(paths), status="paused", data=b"")
        assert {reply.status for reply in found} == {"compiled"}
        return {path: reply.data for path, reply in zip(paths, found, strict=True)}


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


def test_alone_or_among_others_in_any_order_with_any_seed_and_jobs_the_bytes_are_the_same(
    python: str, compiler: Compiler
) -> None:
    """One process that compiles many files gives other bytes on CPython 3.13: every file has its own."""
    paths = sorted(SOURCES)
    reference = compiler.run(python, paths)
    alone: dict[bytes, bytes] = {}
    for path in paths:
        alone |= compiler.run(python, [path])
    assert alone == reference
    for jobs, seed in ((1, "1"), (2, "0"), (4, "random")):
        environment = {
            "PYTHONHASHSEED": seed,
            "LANG": "C",
            "PYTHONOPTIMIZE": "2",
            "PYTHONWARNINGS": "error",
            "HOME": "/x",
        }
        assert compiler.run(python, paths[::-1], jobs=jobs, **environment) == reference


def test_the_names_that_the_compiler_knows_are_those_that_it_had() -> None:
    """CPython 3.13 makes a set of constants anew when the process knows one of their names: each name decides bytes."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(script())):
        match node:
            case ast.Name(name) | ast.Attribute(attr=name) | ast.arg(name) | ast.keyword(name):
                found.add(name or "")
            case ast.FunctionDef(name) | ast.alias(name) | ast.ExceptHandler(name=name):
                found.add(name or "")
            case ast.Constant(str(name)) if name.isidentifier():
                found.add(name)
    advice = "byte code may have moved: give the builder a new version, or keep to the names that it has"
    check_golden("bytecode-names.json", json.dumps(sorted(found), indent=1) + "\n", advice=advice)


def test_byte_code_is_checked_by_hash_and_names_the_final_path(python: str, compiler: Compiler, tmp_path: Path) -> None:
    (data,) = compiler.run(python, [b"site/one.py"]).values()
    assert int.from_bytes(data[4:8], "little") == 0b11
    assert str(tmp_path).encode() not in data
    if python == sys.executable:
        assert data[8:16] == importlib.util.source_hash(SOURCES[b"site/one.py"])
        code = marshal.loads(data[16:])
        assert isinstance(code, CodeType)
        assert code.co_filename == "/site/one.py"


def test_the_interpreter_loads_it_and_compiles_nothing_again(compiler: Compiler, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "__pycache__").mkdir(parents=True)
    (site / "one.py").write_bytes(ONE)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for path, data in compiler.run(sys.executable, [b"site/one.py"]).items():
        (tmp_path / byte_code_path(path, version).decode()).write_bytes(data)
    check = "import sys; sys.path.insert(0, sys.argv[1]); import one; print(one.f.__code__.co_filename)"
    line = [sys.executable, "-B", "-c", check, str(site)]
    done = subprocess.run([*line], capture_output=True, text=True, check=True, env={"PYTHONVERBOSE": "1"})
    assert "one.py" in done.stdout
    assert "code object from" in done.stderr
    assert f"matches {site / 'one.py'}" in done.stderr


def test_a_source_that_does_not_compile_is_refused_with_its_reason(python: str, compiler: Compiler) -> None:
    asked = [*SOURCES.items(), *BROKEN.items()]
    found = compiler.replies(python, b"".join(request(*one) for one in asked) + PAUSE, jobs=3)
    said = {path: reply.reason for (path, _), reply in zip(asked, found, strict=False) if reply.status == "refused"}
    assert sorted(said) == sorted(BROKEN)
    assert said[b"site/old.py"].startswith("SyntaxError: ")
    assert said[b"site/old.py"].endswith("(line 1)")


def test_a_compiler_that_cannot_leave_what_it_made_is_told_as_one_that_crashed(compiler: Compiler) -> None:
    asked = request(b"a.py", b"x = %d" % 10**900) + request(b"b.py", b"") + PAUSE
    found = compiler.replies(sys.executable, asked, largest=300)
    assert [reply.status for reply in found] == ["crashed", "compiled", "paused"]
    assert found[0].reason.startswith("ended with 2")


def test_places_begin_again_after_a_pause(compiler: Compiler) -> None:
    one = request(b"a.py", b"x = 1")
    found = compiler.replies(sys.executable, one + one + PAUSE + one + PAUSE)
    assert [(reply.place, reply.status) for reply in found] == [
        (0, "compiled"), (0, "compiled"), (1, "compiled"), (1, "paused"), (2, "paused"),
    ]  # fmt: skip


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


def test_replies_are_read_from_pieces_of_any_size_and_anything_else_is_refused() -> None:
    told = b"\0\0\0\1\1\0\0\0\3bad" + b"\0\0\0\0\0\0\0\0\0"
    whole = [Reply(place=1, status="refused", data=b"bad"), Reply(place=0, status="compiled", data=b"")]
    assert list(Replies().take(told)) == whole
    replies = Replies()
    assert [reply for byte in told for reply in replies.take(bytes([byte]))] == whole
    with pytest.raises(BuildFailed, match="something else than its replies"):
        list(Replies().take(b"hello, world"))
