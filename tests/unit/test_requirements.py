# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tomllib

from packaging.requirements import Requirement

from derive.lock.documents import PythonLock
from derive.lock.read import require_lock
from derive.lock.requirements import render_requirements
from support.cli import CHECKOUT


def engine_lock() -> PythonLock:
    lock = require_lock((CHECKOUT / "lock/engine.lock.json").read_bytes(), "lock/engine.lock.json")
    assert isinstance(lock, PythonLock)
    return lock


def test_the_requirements_file_is_what_the_engine_lock_gives() -> None:
    assert (CHECKOUT / "requirements.txt").read_text() == render_requirements(engine_lock())


def test_what_pyproject_asks_for_is_locked_at_a_version_that_it_admits() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    locked = {entry.name: entry.version for entry in engine_lock().wheels}
    for text in wanted:
        requirement = Requirement(text)
        assert requirement.specifier.contains(locked[requirement.name.replace("_", "-")]), text


def test_the_engine_never_requires_what_it_builds_with() -> None:
    assert not {"vllm", "torch", "tilelang", "tile-kernels"} & {entry.name for entry in engine_lock().wheels}
