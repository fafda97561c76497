# SPDX-License-Identifier: Apache-2.0
"""The engine as a derivation: what it follows from, and what it does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from derive.derivations.model import Derivation, closure
from derive.engine.derivation import engine_derivation, engine_derivations
from derive.engine.source import engine_files
from derive.errors import InputErrors
from support.cli import SOURCES
from support.derived import AMD64, ARM64, PLATFORMS

PRINT = """
from derive.engine.derivation import engine_derivations
for platform, derivation in sorted(engine_derivations(None, ("linux/arm64", "linux/amd64")).items()):
    print(platform, derivation.id.hex)
"""


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return engine_files()


def ids(derivation: Derivation) -> set[str]:
    return {one.id.hex for one in closure(derivation)}


def test_an_engine_in_another_folder_and_locale_evaluates_to_the_same_ids(tmp_path: Path) -> None:
    package = tmp_path / "some where" / "derive"
    shutil.copytree(SOURCES / "derive", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "cli" / ".swap").write_text("an editor's")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "x.pyc").write_text("a cache")
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Tokyo"}
    done = subprocess.run(
        [sys.executable, "-P", "-B", "-c", PRINT],
        cwd=tmp_path,
        env={**environment, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    names = (path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc" and path.name != ".swap")
    here = engine_derivations({str(path.relative_to(package)): path.read_bytes() for path in names}, PLATFORMS)
    assert done.stdout == "".join(f"{platform} {here[platform].id.hex}\n" for platform in sorted(here))


def test_files_that_are_given_stand_for_those_of_the_running_engine(files: dict[str, bytes]) -> None:
    given = engine_derivation(dict(reversed(files.items())), AMD64)
    assert given.id == engine_derivation(None, AMD64).id


def test_an_edit_of_the_source_moves_nothing_below_the_package(files: dict[str, bytes]) -> None:
    edited = {**files, "cli/main.py": files["cli/main.py"] + b"\n"}
    before, after = ids(engine_derivation(files, AMD64)), ids(engine_derivation(edited, AMD64))
    moved = {one.builder for one in closure(engine_derivation(edited, AMD64)) if one.id.hex not in before}
    assert moved == {"bytecode", "compose", "fetch-engine"}
    assert len(after - before) == 4


def test_both_platforms_share_source_byte_code_and_pure_wheels(files: dict[str, bytes]) -> None:
    both = engine_derivations(files, PLATFORMS)
    shared = ids(both[AMD64]) & ids(both[ARM64])
    named = {one.name for one in closure(both[AMD64]) if one.id.hex in shared}
    assert {"engine 0.1.0 byte code", "rich-15.0.0-py3-none-any.whl"} <= named
    assert both[AMD64].host == AMD64
    assert both[ARM64].host == ARM64


def test_an_engine_s_source_is_fetched_by_its_tree_digest(files: dict[str, bytes]) -> None:
    (fetch,) = [one for one in closure(engine_derivation(files, AMD64)) if one.builder == "fetch-engine"]
    assert str(fetch.fixed) == f"nar:sha256:{fetch.arguments['nar']}"


def test_another_engine_s_own_project_decides_its_root(files: dict[str, bytes]) -> None:
    path = "engine/project/derivations/engine.toml"
    edited = {**files, path: files[path].replace(b"localhost", b"elsewhere")}
    root = {one.id for one in closure(engine_derivation(edited, AMD64)) if one.name == "root"}
    assert root.isdisjoint(one.id for one in closure(engine_derivation(files, AMD64)) if one.name == "root")


def test_an_engine_whose_project_cannot_be_read_is_an_error_with_its_place(files: dict[str, bytes]) -> None:
    path = "engine/project/derivations/engine.toml"
    with pytest.raises(InputErrors) as caught:
        engine_derivation({**files, path: b"[base]\nbuilder = 'none'\n"}, AMD64)
    assert any(problem.where.startswith("derivations/engine.toml") for problem in caught.value.problems())
