# SPDX-License-Identifier: Apache-2.0
"""Locking sets of wheels for real: uv against an index on the loopback address, then against the configured one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.errors import InputErrors, Unavailable
from derive.lock.documents import PythonLock
from derive.lock.keep import MoveAll, MoveNames
from derive.lock.mirrors import SystemMirrors
from derive.lock.table import move_rows
from derive.net.places import FixedMirrors, Mirror
from support.locking import Project
from support.package_index import IndexWheel, PackageIndex
from support.servers import FaultServer

A = IndexWheel(name="a", more="License-Expression: MIT\nRequires-Dist: native>=1\nRequires-Python: >=3.9\n")
NATIVE = [
    IndexWheel(name="native", tag=f"cp{python}-cp{python}-manylinux_2_28_{machine}", more="License: BSD\n")
    for python in ("312", "313")
    for machine in ("x86_64", "aarch64")
]
LARGE = IndexWheel(name="large", padding=5 << 20, more="Classifier: License :: OSI Approved :: MIT License\n")
PYTHON_WISH = """
kind = "python"
pythons = ["3.12", "3.13"]
architectures = ["amd64", "arm64"]
glibc = "2.41"
exclude-newer = "2026-06-01T00:00:00Z"
requirements = ["a", "large"]
"""


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def index(server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackageIndex:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    made = PackageIndex(server)
    made.publish(A, LARGE, *NATIVE)
    return made


@pytest.fixture
def python_project(tmp_path: Path, index: PackageIndex) -> Project:
    mirrors = FixedMirrors(python_indices=(Mirror(url=index.url),))
    return Project(tmp_path / "project", PYTHON_WISH, mirrors)


def test_a_wheel_set_is_locked_for_every_target_without_fetching_wheels(
    python_project: Project, server: FaultServer
) -> None:
    found = python_project.lock()
    lock = found.lock
    assert isinstance(lock, PythonLock)
    assert sorted(lock.targets) == ["cp312-amd64", "cp312-arm64", "cp313-amd64", "cp313-arm64"]
    assert [entry.file for entry in lock.target("3.13", "arm64")] == [
        "a-1.0-py3-none-any.whl",
        "large-1.0-py3-none-any.whl",
        "native-1.0-cp313-cp313-manylinux_2_28_aarch64.whl",
    ]
    assert {entry.name: (entry.licence, entry.requires_python) for entry in lock.wheels} == {
        "a": ("MIT", ">=3.9"),
        "large": ("MIT License", None),
        "native": ("BSD", None),
    }
    assert lock.wheel("a", "3.12", "amd64").sha256 == sha256(A.data())
    assert b"://" not in found.data
    assert not [path for path in server.paths() if path.endswith(".whl")]


def test_of_a_large_wheel_only_the_end_is_read_where_no_metadata_is_served(
    python_project: Project, server: FaultServer
) -> None:
    PackageIndex(server, metadata=False).publish(A, LARGE, *NATIVE)
    lock = python_project.lock().lock
    assert {entry.name: entry.licence for entry in lock.entries}["large"] == "MIT License"
    asked = [request for request in server.requests if request.path.endswith(LARGE.file) and request.method == "GET"]
    assert asked
    assert all("range" in request.headers for request in asked)


def test_a_newer_wheel_waits_for_an_update(python_project: Project, index: PackageIndex) -> None:
    first = python_project.lock()
    index.publish(A, IndexWheel(name="a", version="1.1", more=A.more), LARGE, *NATIVE)
    assert python_project.outdated() == [("a", "wheel", "1.0", "1.1", "index", "")]
    python_project.wish(PYTHON_WISH.replace('"a", "large"', '"a>=1", "large"'))
    assert python_project.lock().moves == ()
    found = python_project.lock(MoveNames(frozenset({"A"})))
    assert [row[:4] for row in move_rows(found.moves)] == [("a", "wheel", "1.0", "1.1")]
    assert found.data != first.data


def test_nothing_newer_than_the_wish_allows_is_taken(python_project: Project, index: PackageIndex) -> None:
    index.publish(A, IndexWheel(name="a", version="1.1", uploaded="2026-07-01T00:00:00Z"), LARGE, *NATIVE)
    lock = python_project.lock().lock
    assert {entry.name: entry.version for entry in lock.entries}["a"] == "1.0"


def test_an_override_wins_over_what_packages_declare(python_project: Project, index: PackageIndex) -> None:
    old = [IndexWheel(name="native", version="0.5", more="License: BSD\n")]
    index.publish(A, LARGE, *NATIVE, *old)
    python_project.wish(f'{PYTHON_WISH}[overrides.native]\nversion = "0.5"\nreason = "1.0 does not load"\n')
    lock = python_project.lock().lock
    assert {entry.name: entry.version for entry in lock.entries}["native"] == "0.5"


def test_a_target_without_a_wheel_has_no_solution(python_project: Project, index: PackageIndex) -> None:
    index.publish(A, LARGE, *NATIVE[:3])
    with pytest.raises(InputErrors) as caught:
        python_project.lock()
    (problem,) = caught.value.problems()
    assert problem.where == "lock/x.toml: requirements"
    assert problem.message == "no solution for Python 3.13 on arm64"


def test_an_index_that_does_not_answer_is_unavailable(
    python_project: Project, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    python_project.mirrors = FixedMirrors(python_indices=(Mirror(url=server.url.replace("127.0.0.1", "127.0.0.9")),))
    with pytest.raises(Unavailable, match=r"uv could not resolve lock/x\.toml: requirements for Python 3\.12 on amd64"):
        python_project.lock()


@pytest.mark.network
def test_the_configured_index_locks_a_real_set_and_serves_it(tmp_path: Path) -> None:
    wish = """
kind = "python"
pythons = ["3.13"]
architectures = ["amd64", "arm64"]
glibc = "2.41"
exclude-newer = "2026-11-20T00:00:00Z"
requirements = ["jinja2==3.1.6", "tomli==2.3.0"]
"""
    project = Project(tmp_path / "project", wish, SystemMirrors())
    found = project.lock()
    assert isinstance(found.lock, PythonLock)
    assert {entry.name for entry in found.lock.target("3.13", "arm64")} == {"jinja2", "markupsafe", "tomli"}
    assert {entry.licence for entry in found.lock.wheels if entry.name == "tomli"} == {"MIT"}
    assert project.lock(MoveAll()).data == found.data
    with project.tools() as tools:
        tools.fetcher.fetch_all(entry.wanted() for entry in found.lock.wheels)
        assert all(tools.store.has_blob(entry.sha256) for entry in found.lock.wheels)
    assert ("tomli", "wheel", "2.3.0") in {row[:3] for row in project.outdated()}
