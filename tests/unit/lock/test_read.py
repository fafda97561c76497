# SPDX-License-Identifier: Apache-2.0
"""Reading lock files strictly."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from derive.errors import InputErrors, Problem
from derive.lock.documents import render_lock
from derive.lock.read import parse_lock, require_lock
from support.locks import debian_lock, python_lock

FILE = "lock/x.lock.json"


def changed(change: Callable[[dict[str, Any]], object], *, python: bool = False) -> list[Problem]:
    document = json.loads(render_lock(python_lock() if python else debian_lock()))
    change(document)
    lock, problems = parse_lock(json.dumps(document).encode(), FILE)
    assert (lock is None) == bool(problems)
    return problems


def test_what_is_written_is_read_back() -> None:
    assert require_lock(render_lock(debian_lock()), FILE) == debian_lock()
    assert require_lock(render_lock(python_lock()), FILE) == python_lock()


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        (lambda d: d.update(colour=1), "colour", "unknown key"),
        (lambda d: d.pop("wish"), "wish", "this key is missing"),
        (lambda d: d.update(wish="1" * 64), "wish", "not a sha256 digest"),
        (lambda d: d.update(derive="lock/2"), "derive", "not a lock of this format"),
        (lambda d: d.update(kind="rpm"), "kind", "not a legal value"),
        (lambda d: d.update(set="y"), "set", "another set than the file's name says"),
        (lambda d: d["entries"][0].update(host="h"), "entries[0].host", "unknown key"),
        (lambda d: d["entries"][0].update(sha256="AB"), "entries[0].sha256", "not a SHA-256"),
        (lambda d: d["entries"][0].update(size=-1), "entries[0].size", "not a size in bytes"),
        (lambda d: d["entries"][0].update(size=True), "entries[0].size", "not a size in bytes"),
        (lambda d: d["entries"][0].update(locator="http://h/pool/a"), "entries[0].locator", "a lock names no hosts"),
        (lambda d: d["entries"][0].update(locator="pool/../a"), "entries[0].locator", "not a legal value"),
        (
            lambda d: d["entries"][0].update(locator="pool/b.deb"),
            "entries[0].locator",
            "does not end in the",
        ),
        (lambda d: d["entries"][0].update(type="wheel"), "entries[0].type", "no such type in a Debian set"),
        (lambda d: d["entries"][0].update(architecture="sparc"), "entries[0].architecture", "not a legal value"),
        (lambda d: d["entries"][3]["files"].reverse(), "entries[3].files", "not sorted"),
        (lambda d: d["entries"][3]["files"][0].update(x=1), "entries[3].files[0].x", "unknown key"),
        (lambda d: d["entries"].reverse(), "entries[1]", "out of order"),
        (lambda d: d["entries"].append("x"), "entries[4]", "not a table"),
        (lambda d: d.update(entries={}), "entries", "not an array"),
        (lambda d: d["closures"]["run"]["amd64"].reverse(), "closures.run.amd64", "not sorted"),
        (lambda d: d["closures"]["run"].update(sparc=[]), "closures.run.sparc", "no such architecture"),
        (lambda d: d["closures"]["run"]["amd64"].append("z.deb"), "closures.run.amd64[2]", "no entry has this file"),
        (lambda d: d["closures"]["run"].pop("arm64"), "entries", "nothing uses a_1.0-1_arm64.deb"),
        (lambda d: d["closures"].update(run=1), "closures.run", "not a table"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(
    change: Callable[[dict[str, Any]], object], where: str, message: str
) -> None:
    problems = changed(change)
    assert f"{FILE}: {where}" in [problem.where for problem in problems]
    assert any(message in problem.message for problem in problems)


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        (
            lambda d: d["targets"].update({"cp313-amd64": d["targets"]["cp313-arm64"]}),
            "targets.cp313-amd64[1]",
            "another",
        ),
        (lambda d: d["targets"].update({"py3": []}), "targets.py3", "not a target"),
        (lambda d: d["entries"][0].update(file="a-1.0.tar.gz"), "entries[0].file", "not a wheel of a"),
        (lambda d: d["entries"][0].update(file="b-1.0-py3-none-any.whl"), "entries[0].file", "not a wheel of a"),
        (lambda d: d["entries"][0].update(type="deb"), "entries[0].type", "not a legal value"),
        (lambda d: d.update(closures={}), "closures", "unknown key"),
    ],
)
def test_wheel_sets_are_checked(change: Callable[[dict[str, Any]], object], where: str, message: str) -> None:
    problems = changed(change, python=True)
    assert f"{FILE}: {where}" in [problem.where for problem in problems]
    assert any(message in problem.message for problem in problems)


def test_all_problems_are_told_at_once() -> None:
    def change(document: dict[str, Any]) -> None:
        document["entries"][0]["size"] = "x"
        document["entries"][1]["colour"] = 1
        document["zz"] = 1

    places = sorted(problem.where for problem in changed(change))
    assert places == [f"{FILE}: entries[0].size", f"{FILE}: entries[1].colour", f"{FILE}: zz"]


@pytest.mark.parametrize("data", [b"", b"<<<<<<< ours\n{}", b"[]", b'{"a": 1, "a": 2}', b'{"derive": 1.5}', b"\xff"])
def test_what_is_no_lock_is_refused_with_a_way_out(data: bytes) -> None:
    with pytest.raises(InputErrors) as caught:
        require_lock(data, FILE)
    (problem,) = caught.value.problems()
    assert problem.where == FILE
    assert "derive lock x" in str(problem.hint)


def test_reading_locks_imports_neither_pydantic_nor_requests() -> None:
    heavy = "{'pydantic', 'requests', 'packaging', 'debian'}"
    code = f"import sys, derive.lock.read; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
