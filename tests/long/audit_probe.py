# SPDX-License-Identifier: Apache-2.0
"""The project's own image, derived again from its capsule alone: engine and all, with no network and an empty store.

Takes minutes, so that `make test` does not collect it: `make long`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.project import CONTENT_ROOTS, LAUNCH_ROOTS
from derive.trees.materialise import remove_folder
from support.auditing import Lost, lean_copy, verdict_of
from support.cli import CHECKOUT, derive
from support.derived import AMD64, Derived
from support.engine import BuiltEngine

pytestmark = pytest.mark.sandbox

GOLDEN = CHECKOUT / "tests/golden/probe.json"
NO_NETWORK = ("unshare", "--net", *(() if os.geteuid() == 0 else ("--map-current-user",)))


@pytest.fixture
def lost(derived: Derived, built_engine: BuiltEngine, tmp_path: Path) -> Iterator[Lost]:
    """Release probe in a copy of the checkout, pack it with everything that its engine is made of, and lose the rest.

    What the session's engine was made of is not fetched once more for the capsule; what it built is not taken over.
    """
    project, capsule, warm = (tmp_path / name for name in ("project", "capsule", "warm"))
    lean_copy(derived.store, warm)
    for name in sorted({*CONTENT_ROOTS, *LAUNCH_ROOTS}):
        shutil.copytree(CHECKOUT / name, project / name)
    shutil.copy(CHECKOUT / "pyproject.toml", project)
    for blob in (built_engine.store / "blobs/sha256").iterdir():
        target = warm / "blobs/sha256" / blob.name
        if not target.exists():
            target.hardlink_to(blob)
    env = {"DERIVE_STORE": str(warm)}
    release = derive("release", "probe-x", "--recipe", "probe", "--by", "tester", env=env, cwd=project).answer
    packed = derive("capsule", "create", "probe-x", "--output", str(capsule), env=env, cwd=project)
    assert packed.code == 0, packed.err
    remove_folder(project)
    remove_folder(warm)
    empty = tmp_path / "empty"
    empty.mkdir()
    golden = json.loads(GOLDEN.read_bytes())
    yield Lost(capsule, {"probe-x": release}, {"probe-x": golden}, tmp_path / "store", empty)
    for folder in (capsule, tmp_path / "store", tmp_path / "scratch"):
        remove_folder(folder)


def test_probe_comes_out_of_its_capsule_with_the_digest_that_it_has_always_had(
    lost: Lost, built_engine: BuiltEngine, tmp_path: Path
) -> None:
    assert not lost.ground.exists()
    ran = derive(
        *("audit", "probe-x", "--capsule", str(lost.capsule), "--platform", AMD64, "--json"),
        *("--scratch", str(tmp_path / "scratch")),
        env=lost.environment,
        cwd=lost.empty,
        before=NO_NETWORK,
    )
    assert ran.code == 0, ran.err
    found = verdict_of(ran)
    assert found["outcome"] == "same"
    assert found["images"] == {AMD64: lost.images["probe-x"][AMD64]}
    assert found["release"] == lost.releases["probe-x"]
    engine = found["engine"]
    assert isinstance(engine, dict)
    assert engine["derivation"] == engine["recorded"] == built_engine.derivation.hex
    assert engine["output"] == f"nar:{built_engine.tree}", "the engine's root, derived from the capsule"
