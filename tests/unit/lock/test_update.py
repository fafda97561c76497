# SPDX-License-Identifier: Apache-2.0
"""A set's files: reading, checking and writing them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.lock.documents import render_lock
from derive.lock.keep import KeepAll, MoveNames
from derive.lock.tools import Tools
from derive.lock.update import check_set, lock_set, outdated, read_set, set_names, write_lock
from derive.lock.wishes import require_wish, wish_digest
from derive.net.fetch import Fetcher
from derive.net.places import FixedMirrors
from derive.store.memory import MemoryStore
from support.locks import python_lock

WISH = b"""
kind = "python"
pythons = ["3.13"]
architectures = ["amd64", "arm64"]
glibc = "2.41"
exclude-newer = "2026-11-20T00:00:00Z"
requirements = ["a", "n"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock" / "x.toml").write_bytes(WISH)
    lock = replace(python_lock(), wish=wish_digest(require_wish(WISH, "")))
    (tmp_path / "lock" / "x.lock.json").write_bytes(render_lock(lock))
    return tmp_path


def tools() -> Tools:
    """Tools that reach no mirror at all."""
    store, mirrors = MemoryStore(), FixedMirrors()
    return Tools(store=store, fetcher=Fetcher(store=store, mirrors=mirrors), mirrors=mirrors)


def test_sets_are_the_wishes_of_a_project(project: Path) -> None:
    (project / "lock" / "a.toml").write_bytes(b"")
    assert set_names(project) == ("a", "x")
    files = read_set(project, "x")
    assert (files.wish_file, files.lock_file, files.wish) == ("lock/x.toml", "lock/x.lock.json", WISH)
    assert read_set(project, "a").locked is None


def test_a_set_that_is_not_there_is_told_with_those_that_are(project: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        read_set(project, "y")
    assert caught.value.problems()[0].detail == ("known     x",)


def test_a_wish_that_is_locked_asks_no_mirror(project: Path) -> None:
    files = read_set(project, "x")
    found = lock_set(files, KeepAll(), tools())
    assert found.moves == ()
    assert not write_lock(project, files, found.data)


def test_a_set_that_fits_has_no_problems(project: Path) -> None:
    assert check_set(read_set(project, "x")) == []


def test_a_changed_wish_a_missing_lock_and_another_layout_are_told(project: Path) -> None:
    files = read_set(project, "x")
    (problem,) = check_set(replace(files, wish=WISH.replace(b'"n"', b'"m"')))
    assert (problem.message, problem.hint) == ("changed since it was locked", "run: derive lock x")
    (problem,) = check_set(replace(files, locked=None))
    assert (problem.where, problem.message) == ("lock/x.lock.json", "not locked yet")
    assert files.locked is not None
    (problem,) = check_set(replace(files, locked=files.locked + b"\n"))
    assert "not laid out" in problem.message
    assert len(check_set(replace(files, wish=b"kind = 1", locked=b"[]"))) == 2


def test_another_layout_is_put_right_without_a_mirror(project: Path) -> None:
    files = read_set(project, "x")
    assert files.locked is not None
    found = lock_set(replace(files, locked=files.locked + b"\n"), KeepAll(), tools())
    assert found.data == files.locked


def test_a_name_that_is_not_locked_cannot_move(project: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        lock_set(read_set(project, "x"), MoveNames(frozenset({"a", "zz"})), tools())
    assert [problem.message for problem in caught.value.problems()] == ["zz is not locked in the set x"]


def test_a_broken_lock_is_not_overwritten_in_silence(project: Path) -> None:
    files = replace(read_set(project, "x"), locked=b"<<<<<<<")
    with pytest.raises(InputErrors):
        lock_set(files, KeepAll(), tools())


def test_outdated_asks_nothing_of_a_set_that_does_not_fit(project: Path) -> None:
    with pytest.raises(InputErrors):
        outdated(replace(read_set(project, "x"), wish=WISH.replace(b'"n"', b'"m"')), tools())


def test_a_lock_is_written_whole_and_readable_by_all(project: Path) -> None:
    files = read_set(project, "x")
    assert write_lock(project, files, b"new\n")
    target = project / "lock" / "x.lock.json"
    assert target.read_bytes() == b"new\n"
    assert target.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in (project / "lock").iterdir()) == ["x.lock.json", "x.toml"]
