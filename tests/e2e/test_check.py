# SPDX-License-Identifier: Apache-2.0
"""``--check`` builds all again with another job count: the image passes, and what is not a function is caught."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.build.check import check_closure
from derive.build.service import Options, evaluate, executor, plan_for, realise
from derive.derivations.model import Derivation, closure
from derive.project import load_project
from derive.store.local import LocalStore
from support.cli import CHECKOUT, derive
from support.derived import AMD64, ARM64, Derived
from support.idle_hosts import listing_engine
from support.small import Small, small_project

SPARK2 = """
[executors.spark2]
builder = "nowhere"
platforms = ["linux/amd64"]
speed = 9000
[executors.spark2.guard]
idle = ["dsv41-*"]
memory-needed = "1MiB"
memory-floor = "1MiB"
lock = "{lock}"
"""
JOBS = len(os.sched_getaffinity(0))
# Not what the first build had.
OTHER_JOBS = 2 if JOBS == 1 else 1


def test_the_image_comes_out_alike_when_every_step_is_built_again(derived: Derived) -> None:
    ran = derive("image", "probe", "--platform", AMD64, "--check", "--store", str(derived.store))
    assert (ran.code, ran.out) == (0, f"{derived.digests[AMD64]}\n"), ran.err
    same = {line.removeprefix("same  ") for line in ran.err.splitlines() if line.startswith("same  ")}
    assert {"userland", "toolchain", "perftest", "userland-bytecode", "probe layer userland", "probe"} <= same
    assert re.search(r"^checked [1-9][0-9]* steps: no differences$", ran.err, re.MULTILINE)


def test_what_the_other_platform_adds_comes_out_alike_too(derived: Derived) -> None:
    project = load_project(CHECKOUT)
    checked = {one.id for one in closure(evaluate(project, "image:probe", AMD64))}
    target = evaluate(project, "image:probe", ARM64)
    seen: list[str] = []

    def watch(derivation: Derivation, differences: int) -> None:
        del differences
        seen.append(derivation.name)

    with LocalStore(derived.store) as store:
        options = Options(jobs=JOBS)
        realise(plan_for(target, store, None, whole=True), store, options)
        again = executor(store, options, inner_jobs=OTHER_JOBS)
        count, differences = check_closure(target, again, watch, but=checked)
    assert not differences
    assert count == len(seen)
    assert {"userland", "perftest", "userland-bytecode", "probe layer perftest", "probe"} <= set(seen)
    assert not {"toolchain", "perftest-patched"} & set(seen)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


def check(small: Small) -> tuple[int, list[str]]:
    """Check the small project's image; return the exit code and the lines that tell of differences."""
    ran = small.here("image", "--check", "--jobs", "2")
    lines = ran.err.splitlines()
    starts = [index for index, line in enumerate(lines) if line.startswith("differs: ")]
    assert f"{len(starts) or 'no'} differences" in ran.err
    return ran.code, [" ".join(lines[index : index + 3]) for index in starts]


def add_to_script(small: Small, line: str) -> None:
    script = small.root / "derivations/small/build.sh"
    small.write("derivations/small/build.sh", f"{script.read_text()}{line}\n")


def test_a_project_of_pure_steps_passes(small: Small) -> None:
    assert check(small) == (0, [])


def test_a_random_number_is_caught_with_its_file_and_byte(small: Small) -> None:
    add_to_script(small, '{ echo "a number: "; head -c 16 /dev/urandom; } > "$DERIVE_OUT/usr/share/hello/number"')
    code, differences = check(small)
    assert code == 1
    # The layer and the image are built from what came first, so the culprit alone is named.
    (told,) = differences
    found = re.match(r"differs: hello, output out: usr/share/hello/number, contents, at byte (\d+) ", told)
    assert found is not None, told
    assert 11 <= int(found[1]) < 27
    first, second = re.findall(r"nar:sha256:[0-9a-f]{64}|sha256:[0-9a-f]{64}", told)
    assert first != second


def test_the_exact_byte_is_named_where_the_job_count_gets_in(small: Small) -> None:
    add_to_script(small, 'echo "built by $DERIVE_JOBS jobs" > "$DERIVE_OUT/usr/share/hello/how"')
    code, differences = check(small)
    assert code == 1
    assert len(differences) == 1
    assert "differs: hello, output out: usr/share/hello/how, contents, at byte 9 " in differences[0]


def test_a_file_that_only_one_job_count_gives_is_caught_without_a_byte(small: Small) -> None:
    add_to_script(small, 'echo x > "$DERIVE_OUT/usr/share/hello/by-$DERIVE_JOBS"')
    code, differences = check(small)
    assert code == 1
    assert len(differences) == 1
    assert differences[0].startswith("differs: hello, output out: usr/share/hello/by-1, added ")


def test_a_bit_that_changes_is_caught(small: Small) -> None:
    add_to_script(small, 'chmod $((640 + (DERIVE_JOBS % 2) * 110)) "$DERIVE_OUT/usr/share/hello/greeting"')
    code, differences = check(small)
    assert code == 1
    assert len(differences) == 1
    assert differences[0].startswith("differs: hello, output out: usr/share/hello/greeting, executable ")


def test_one_derivation_alone_is_checked_and_what_differs_is_told(small: Small) -> None:
    well = small.here("build", "hello", "--check")
    assert (well.code, well.answer.startswith("sha256:")) == (0, True)
    assert "steps: no differences" in well.err
    add_to_script(small, 'echo $DERIVE_JOBS > "$DERIVE_OUT/usr/share/hello/number"')
    ran = small.here("build", "hello", "--check", "--jobs", "2")
    assert (ran.code, ran.out) == (1, "")
    assert "differs: hello, output out: usr/share/hello/number, contents, at byte 0" in ran.err
    told = json.loads(small.here("build", "hello", "--check", "--json", "--jobs", "2").out)["body"]
    assert [(one["path"], one["offset_bytes"]) for one in told["differences"]] == [("usr/share/hello/number", 0)]


def test_what_a_check_found_changes_neither_the_digest_nor_what_is_kept(small: Small) -> None:
    add_to_script(small, 'head -c 16 /dev/urandom > "$DERIVE_OUT/usr/share/hello/number"')
    before = small.here("image").answer
    ran = small.here("image", "--check")
    assert (ran.code, ran.out) == (1, "")
    assert small.here("image").answer == before


def nothing_ran(small: Small) -> bool:
    return not small.server.paths() and not list(small.store.rglob("*.check.log"))


def test_a_check_that_its_executor_cannot_run_is_refused_before_anything_runs(small: Small) -> None:
    ran = small.here("image", "--check", "--executor", "buildkit=nobody", env={"PATH": str(small.home)})
    assert (ran.code, "there is no docker on this machine's PATH" in ran.err) == (3, True), ran.err
    assert nothing_ran(small)


def test_a_check_on_a_host_that_serves_is_refused_before_anything_runs(small: Small) -> None:
    config = small.home / "derive" / "config.toml"
    config.parent.mkdir()
    config.write_text(SPARK2.format(lock=small.home / "lock"))
    with listing_engine(small.home / "engine.sock") as listed:
        listed.running["dsv41-tp4"] = []
        env = {"DERIVE_ENGINE_SOCKET": listed.socket}
        for command in (("image", "--check"), ("build", "hello", "--check"), ("image",)):
            ran = small.here(*command, "--on", "spark2", env=env)
            assert (ran.code, "spark2  it serves: dsv41-tp4 runs" in ran.err) == (3, True), ran.err
    assert nothing_ran(small)


def test_what_is_only_configured_takes_no_part_in_a_check(small: Small) -> None:
    assert small.here("image").code == 0
    config = small.home / "derive" / "config.toml"
    config.parent.mkdir()
    config.write_text(SPARK2.format(lock=small.home / "lock"))
    assert check(small) == (0, [])
