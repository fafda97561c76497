# SPDX-License-Identifier: Apache-2.0
"""Builds and collections in one store at once, killed or not: nothing needed goes, and the store stays sound."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.store.collect import collect
from derive.store.local import LocalStore
from derive.store.reach import Level
from derive.store.verify import How, verify
from support.cli import CHECKOUT, SOURCES
from support.running import BEGUN, running
from support.small import Small, small_project

SCRIPT = CHECKOUT / "tests" / "support" / "collecting.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), str(CHECKOUT / "tests")])}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


def start(job: str, root: Path, seed: int, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), job, str(root), str(seed), str(seconds)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> int:
    """Wait for one, and return how often it went round."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return int(out)


def test_what_is_being_built_stays_while_others_collect(tmp_path: Path) -> None:
    root = tmp_path / "store"
    builders = [start("build", root, seed, 3) for seed in range(2)]
    sweepers = [start("sweep", root, seed, 3) for seed in range(2)]
    turns = [finish(process) for process in (*builders, *sweepers)]
    assert min(turns) > 2
    with LocalStore(root) as store:
        assert verify(store, How(jobs=2, trees=True)).is_sound
        collect(store, Level.AUDIT)
        assert verify(store, How(jobs=2, trees=True)).findings == ()


def test_builds_and_collections_that_are_killed_leave_a_sound_store(tmp_path: Path) -> None:
    root = tmp_path / "store"
    chance = random.Random(7)
    for turn in range(3):
        running = [start(job, root, turn + seed, 20) for job in ("build", "sweep") for seed in range(2)]
        for process in running:
            time.sleep(0.3 + chance.random() * 0.3)
            process.kill()
            _, err = process.communicate()
            assert "Error" not in err, err
        with LocalStore(root) as store:
            assert verify(store, How(jobs=2, trees=True)).is_sound
            assert [
                effect.run.value for effect in collect(store, Level.REBUILD).roots if effect.run.value != "yes"
            ] == []
            assert verify(store, How(jobs=2, trees=True)).is_sound


def test_a_collected_image_is_derived_again_offline_with_the_same_digest(small: Small) -> None:
    first = small.here("image")
    assert first.code == 0
    done = json.loads(small.here("store", "gc", "--json").out)["body"]
    assert [root["rebuild"] for root in done["roots"]] == ["yes"]
    assert done["freed_bytes"] > 0
    again = small.derive("image", "--check", "--offline", before=("unshare", "--net", "--map-root-user"))
    assert (again.code, again.out) == (0, first.out), again.err


def test_an_image_whose_name_another_took_is_said_before_it_goes(small: Small) -> None:
    first = small.here("image").answer
    small.edit("derivations/small/build.sh", "cp /in/source/run", "echo more > $DERIVE_OUT/more; cp /in/source/run")
    second = small.here("image").answer
    short = first.removeprefix("sha256:")[:12]
    told = small.here("store", "gc", "--dry-run").answer
    assert re.search(rf"^small@linux/amd64 +{short} +lost +lost +lost$", told, re.MULTILINE)
    body = json.loads(small.here("store", "gc", "--json").out)["body"]
    assert body["unnamed_images"] == [{"name": "small@linux/amd64", "digest": first}]
    assert json.loads(small.here("store", "gc", "--dry-run", "--json").out)["body"]["unnamed_images"] == []
    assert small.here("image").answer == second


def test_after_keeping_what_runs_alone_a_rebuild_needs_the_sources_again(small: Small) -> None:
    first = small.here("image")
    assert small.here("store", "gc", "--keep", "run").code == 0
    assert small.here("image").out == first.out
    assert small.here("image", "--check", "--offline").code == 3
    assert small.here("image", "--check").out == first.out


def test_a_check_after_optimising_finds_every_step_the_same(small: Small) -> None:
    first = small.here("image")
    done = json.loads(small.here("store", "optimise", "--folders", "--json").out)["body"]
    assert done["packs_rewritten"] >= 1
    again = small.here("image", "--check")
    assert (again.code, again.out) == (0, first.out), again.err
    assert small.here("store", "verify", "--trees").code == 0


def test_a_damaged_artifact_is_fetched_again_from_its_mirror(small: Small) -> None:
    assert small.here("image").code == 0
    with LocalStore(small.store) as store:
        ((_, _, resolved, _),) = store.database.find_derivations("hello_1.0.orig.tar.gz")
        row = store.database.realisation(resolved)
        assert row is not None
        path = small.store / "blobs" / "sha256" / row.outputs["out"].rpartition(":")[2]
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    found = small.here("store", "verify")
    assert found.code == 1
    assert "hello_1.0.orig.tar.gz" in found.out
    asked = small.asked("hello_1.0.orig.tar.gz")
    mended = small.here("store", "verify", "--repair")
    assert mended.code == 0, mended.err
    assert "brought back" in mended.err
    assert small.asked("hello_1.0.orig.tar.gz") == asked + 1
    assert small.here("store", "verify").code == 0


def test_a_store_that_cannot_be_written_still_answers(small: Small) -> None:
    assert small.here("image").code == 0
    mount = f'mount --bind -o ro {small.store} {small.store} && exec "$@"'
    before = ("unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh")
    for arguments in (["verify"], ["du"], ["du", "--packages"], ["gc", "--dry-run"], ["path", "small"]):
        ran = small.derive("store", *arguments, before=before)
        assert (ran.code, ran.err) == (0, ""), (arguments, ran.err)
        assert ran.out
    for arguments in (["gc"], ["optimise"], ["verify", "--repair"]):
        ran = small.derive("store", *arguments, before=before)
        if arguments[0] != "verify":  # nothing is found, and nothing mended
            assert ran.code == 3
            assert "the store cannot be written" in ran.err


def test_a_collection_in_the_middle_of_a_build_takes_nothing_from_it(small: Small) -> None:
    small.edit("derivations/small/build.sh", 'echo "hello is built"', f'echo "{BEGUN}"\nsleep 2')
    with running(small, "image", "small") as build:
        build.wait_for(build.script_has_begun)
        collected = [small.here("store", "gc", "--keep", "run") for _ in range(3)]
        result = build.result()
    assert [ran.code for ran in collected] == [0, 0, 0]
    assert "1 process at work" in collected[0].err
    assert result.code == 0, result.err
    assert small.here("store", "verify").code == 0
