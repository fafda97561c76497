# SPDX-License-Identifier: Apache-2.0
"""What an engine's source is known by, and the root that it states for itself."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from derive import __version__
from derive.build.engine import engine_digest
from derive.engine.model import build_platform, carried, members, source_of
from derive.engine.source import engine_files
from derive.errors import InputErrors
from derive.store.memory import MemoryStore
from derive.trees.pack import add_members
from support.cli import CHECKOUT, SOURCES

FILES = {"__init__.py": b'__version__ = "1.2"\n', "cli/main.py": b"print()\n"}
PROJECT = SOURCES / "derive" / "engine" / "project"


def test_the_digest_of_a_source_is_the_one_that_realisations_name() -> None:
    assert source_of(engine_files()).digest == engine_digest()


def test_the_version_of_a_source_is_the_one_that_it_prints() -> None:
    assert source_of(engine_files()).version == __version__


def test_a_source_has_the_digest_of_its_files_as_a_tree() -> None:
    store = MemoryStore()
    assert store.add_listing(add_members(store, members(FILES))) == source_of(FILES).nar


def test_the_order_in_which_files_are_found_does_not_show() -> None:
    backwards = dict(reversed(FILES.items()))
    assert source_of(backwards) == source_of(FILES)
    assert [path for path, _ in members(backwards)] == [path for path, _ in members(FILES)]


def test_caches_and_hidden_files_are_no_source() -> None:
    files = engine_files()
    assert "engine/source.py" in files
    assert not [path for path in files if "__pycache__" in path or "/." in f"/{path}"]


def test_files_that_state_no_version_are_no_engine() -> None:
    with pytest.raises(InputErrors) as caught:
        source_of({"main.py": b"pass\n"})
    (problem,) = caught.value.problems()
    assert problem.where == "derive/__init__.py"
    assert "no version" in problem.message


def test_an_engine_that_carries_no_project_is_refused_with_a_next_step() -> None:
    with pytest.raises(InputErrors) as caught:
        carried(FILES)
    (problem,) = caught.value.problems()
    assert problem.where == "derive/engine/project/"
    assert problem.hint


@pytest.mark.parametrize("text", [b"", b"[tool.derive", b"[tool]\nderive = 1\n", b"\xff"])
def test_a_project_without_a_build_platform_is_refused(text: bytes) -> None:
    with pytest.raises(InputErrors, match="1 problem"):
        build_platform(text)


def test_the_engine_is_derived_with_the_wheels_that_it_is_tested_with() -> None:
    tested = versions(CHECKOUT / "lock" / "engine.lock.json")
    derived = versions(PROJECT / "lock" / "wheels.lock.json")
    assert derived
    assert derived <= tested


def test_the_wheels_are_those_that_the_distribution_depends_on() -> None:
    declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"]
    wished = tomllib.loads((PROJECT / "lock" / "wheels.toml").read_text())["requirements"]
    assert wished == declared


def versions(lock: Path) -> set[tuple[str, str]]:
    return {(entry["name"], entry["version"]) for entry in json.loads(lock.read_bytes())["entries"]}
