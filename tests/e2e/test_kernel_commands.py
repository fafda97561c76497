# SPDX-License-Identifier: Apache-2.0
"""``derive kernels`` as a person uses it, with a compiler that takes no time; with the real one: test_kernels.py."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.cli import Ran, command, environment
from support.compiled import UNITS, kernel_project
from support.running import Run, gone_within
from support.small import Small
from support.store_check import check_store

SOURCE = "kernels/scale/kernel.py"
BODY = "def scale(columns, threads): ...\n"
FEW = "scale/scale/wide/few"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with kernel_project(tmp_path) as project:
        yield project


def body(ran: Ran, code: int = 0) -> dict[str, Any]:
    """Return what a record says."""
    assert ran.code == code, ran.err
    found: dict[str, Any] = json.loads(ran.out)["body"]
    return found


def kinds(ran: Ran) -> list[tuple[str, str]]:
    """Return the findings of a check that found some: kind and name."""
    return [(one["kind"], one["name"]) for one in body(ran, 1)["findings"]]


def test_a_list_has_every_unit_whether_it_is_built_and_what_it_needs(small: Small) -> None:
    before = small.here("kernels", "list")
    assert [row.split()[0] for row in before.out.splitlines()[1:]] == list(UNITS)
    assert before.err == "8 units, 0 built\n"
    assert small.here("kernels", "build", FEW).code == 0
    rows = {row.split()[0]: row.split()[1:] for row in small.here("kernels", "list").out.splitlines()}
    assert rows[UNITS[0]] == ["1-64", "yes", "32", "1040", "0", "HMMA.16816.F32.BF16", "x1"]
    assert rows[UNITS[2]] == ["65-", "no"]
    units = body(small.here("kernels", "list", "--gpu", "sm_121a", "--json"))["units"]
    assert [(one["unit"], one["state"]) for one in units][:2] == [(UNITS[1], "built"), (UNITS[3], "not built")]
    assert units[0]["resources"]["registers"] == 32
    assert units[0]["tensor-parallel"] == [3, 4]


def test_a_list_on_a_terminal_stands_under_its_shapes_and_is_no_wider_than_it(small: Small) -> None:
    small.here("kernels", "build", FEW)
    for width in (40, 80, 120):
        rows = _on_a_terminal(small, width)
        assert max(map(len, rows)) <= width
        assert rows[1] == "scale/scale/wide  a wide layer, TP3, TP4"[:width]
        assert rows[2].split()[:2] == ["few/sm_90a", "1-64"]
        assert ("HMMA.16816.F32.BF16 x1" in rows[2]) == (width == 120)
        assert not any("\x1b" in row for row in rows)


def _on_a_terminal(small: Small, width: int) -> list[str]:
    """Return the rows of a list on a terminal of some columns."""
    main, side = os.openpty()
    try:
        termios.tcsetwinsize(side, (24, width))
        run = command("kernels", "list", "--project", str(small.root))
        surroundings = environment({**small.environment, "COLUMNS": ""})
        subprocess.run(run, stdout=side, stderr=subprocess.PIPE, env=surroundings, check=True)
        return os.read(main, 20_000).decode().replace("\r", "").splitlines()
    finally:
        os.close(main)
        os.close(side)


def test_building_everything_gives_the_cache_and_a_second_time_reuses_it(small: Small) -> None:
    first = small.here("kernels", "build")
    assert "8 units: 0 in the store, 8 to build" in first.err
    again = small.here("kernels", "build")
    assert again.answer == first.answer == small.here("build", "cache").answer
    assert again.err == "8 units: 8 in the store, 0 to build\n"
    other = small.here("kernels", "build", "--platform", "linux/arm64")
    assert other.answer == small.here("build", "cache", "--platform", "linux/arm64").answer
    assert other.answer != first.answer


def test_building_some_units_gives_the_digest_of_each(small: Small) -> None:
    ran = small.here("kernels", "build", FEW)
    digests = {unit: digest for digest, unit in (row.split("  ") for row in ran.answer.splitlines())}
    assert list(digests) == list(UNITS[:2])
    assert digests[UNITS[0]] == small.here("build", UNITS[0]).answer
    units = body(small.here("kernels", "build", FEW, "--json"))["units"]
    assert units[0]["outputs"]["device"] == f"nar:{digests[UNITS[0]]}"
    assert set(units[0]["outputs"]) == {"device", "x86_64"}


def test_an_edit_rebuilds_the_units_that_it_reaches(small: Small) -> None:
    small.here("kernels", "build")
    small.write("kernels/scale/tests/test_scale.py", "assert not False\n")
    assert "8 in the store, 0 to build" in small.here("kernels", "build").err
    small.edit("kernels/scale/kernel.toml", "threads = 256", "threads = 512")
    assert "6 in the store, 2 to build" in small.here("kernels", "build").err
    small.write(SOURCE, "# another\n" + BODY)
    assert "0 in the store, 8 to build" in small.here("kernels", "build").err


def test_units_that_fail_are_each_named_and_the_others_are_built(small: Small) -> None:
    small.write(SOURCE, "# fail many\n" + BODY)
    ran = small.here("kernels", "build")
    assert (ran.code, ran.out) == (3, "")
    for unit in (UNITS[2], UNITS[6]):
        assert f"error: {unit}: the compiler of {unit} failed" in ran.err
        assert f"       failed    {unit}" in ran.err
    assert ran.err.count("kernel.py: no such tile") == 2
    assert "error: 2 of 8 units failed" in ran.err
    again = small.here("kernels", "build")
    assert "8 units: 6 in the store, 2 to build" in again.err
    assert again.code == 3
    assert small.here("kernels", "build", "--gpu", "sm_121a").code == 0


def test_a_check_says_its_plan_first_compiles_again_and_remembers_what_was_equal(small: Small) -> None:
    small.here("kernels", "build", FEW)
    ran = small.here("kernels", "check")
    assert (ran.code, ran.out) == (0, ""), ran.err
    plan = ran.err.split("kernels: ")[0]
    assert plan.startswith("check: 8 units of 1 kernel, for sm_121a, sm_90a\n")
    assert "  to compile        6 units, 10 host parts\n" in plan
    assert "  to compile again  8 units, 12 host parts; 0 found equal before\n" in plan
    assert (
        "cache linux/amd64 (never run here), cache linux/arm64 (never run here), kernel-tests (never run here)" in plan
    )
    assert "  expected          " in plan
    assert "  disk              up to " in plan
    assert ran.err.count("\nsame  ") == 20
    assert "built 3/3  kernel-tests" in ran.err
    assert ran.err.endswith("checked 8 units: 20 steps done again, 0 found equal before, no findings\n")
    again = small.here("kernels", "check")
    assert "to compile again  0 units, 0 host parts; 20 found equal before" in again.err
    assert "kernel-tests (in the store)" in again.err
    anew = small.here("kernels", "check", FEW, "--again", "--json")
    assert body(anew) == {"units": 2, "compiled_again": 5, "equal_before": 0, "spill_bytes": {}, "findings": []}


def test_a_check_that_only_plans_changes_nothing(small: Small) -> None:
    ran = small.here("kernels", "check", "--dry-run")
    assert (ran.code, ran.out) == (0, "")
    assert "some guessed at 20.0 s a unit" in ran.err
    assert not small.store.exists()


def test_a_quick_check_looks_at_one_unit_of_each_kernel_and_architecture(small: Small) -> None:
    ran = small.here("kernels", "check", "--quick")
    assert ran.code == 0, ran.err
    assert "check: 2 units of 1 kernel" in ran.err
    assert "besides           kernel-tests-quick (never run here)" in ran.err
    assert "kernel-tests:" not in ran.err


def test_bytes_that_differ_are_findings_each_with_its_place(small: Small) -> None:
    small.write(SOURCE, "# jobs yes\n" + BODY)
    ran = small.here("kernels", "check", FEW)
    assert ran.code == 1
    rows = [row.split(maxsplit=2) for row in ran.out.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["differs", UNITS[0]], ["differs", UNITS[1]]]
    assert "kernel.cubin, contents, at byte " in rows[0][2]
    assert ran.err.count("       second    nar:sha256:") == 2
    assert "2 findings" in ran.err
    assert len(kinds(small.here("kernels", "check", FEW, "--json"))) == 2, "what differs is never remembered as equal"


def test_units_that_a_cache_cannot_tell_apart_are_findings(small: Small) -> None:
    small.write(SOURCE, "# one key\n" + BODY)
    found = kinds(small.here("kernels", "check", "scale/scale/wide", "--gpu", "sm_90a", "--json"))
    assert found == [("keys", UNITS[2])]


def test_a_unit_that_fails_and_tests_that_fail_are_findings_and_the_rest_is_checked(small: Small) -> None:
    small.write(SOURCE, "# fail many\n" + BODY)
    small.write("derivations/k/test.sh", 'echo "test_scale: no"; exit 1\n')
    ran = small.here("kernels", "check", "--json")
    assert kinds(ran) == [("fails", UNITS[2]), ("fails", UNITS[6]), ("tests", "kernel-tests")]
    assert "       | test_scale: no" in ran.err
    assert "16 steps done again" in ran.err


def test_spills_are_told_and_are_no_finding(small: Small) -> None:
    small.write(SOURCE, "# spill 64\n" + BODY)
    ran = small.here("kernels", "check", FEW, "--gpu", "sm_90a", "--json")
    assert body(ran)["spill_bytes"] == {UNITS[0]: 64}
    assert f"spills  {UNITS[0]}: 64 bytes of each thread" in ran.err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_check_that_is_stopped_goes_on_where_it_was(small: Small, number: int) -> None:
    length = f"0.3{time.monotonic_ns()}"  # of a sleep that nobody else sleeps
    small.write(SOURCE, f"# slow {length}\n{BODY}")
    small.here("kernels", "build", FEW)
    run = Run(small, "kernels", "check", FEW, "--jobs", "1")
    run.wait_for(lambda: _remembered(small))
    ended = run.end(number, within_s=10)
    assert ended.code in (-signal.SIGKILL, 130)
    assert gone_within(10, length)
    check_store(small.store)
    found = body(small.here("kernels", "check", FEW, "--json"))
    assert found["equal_before"] >= 1
    assert found["equal_before"] + found["compiled_again"] == 5
    assert found["findings"] == []


def _remembered(small: Small) -> bool:
    """Say whether a step was remembered as equal."""
    with closing(sqlite3.connect(small.store / "derive.sqlite")) as connection:
        return bool(connection.execute("SELECT 1 FROM memos WHERE value LIKE 'nar:%'").fetchone())


def test_a_unit_that_did_not_move_differs_in_nothing(small: Small) -> None:
    small.here("kernels", "build", FEW)
    for operands in ((UNITS[0], "."), (".", UNITS[0]), (UNITS[0], UNITS[0])):
        ran = small.here("kernels", "diff", *operands)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.splitlines()[-1] == "nothing moved"


def test_an_edit_differs_from_what_was_built_last_also_before_it_is_built(small: Small) -> None:
    small.here("kernels", "build", FEW)
    small.edit("kernels/scale/kernel.toml", "threads = 64", "threads = 96")
    small.write(SOURCE, BODY + "# more\n")
    before = small.here("kernels", "diff", UNITS[0], ".")
    assert before.code == 1
    assert "  arguments.threads: 64 -> 96\n" in before.out
    assert "  +# more\n" in before.out
    assert f"hint: derive kernels build {UNITS[0]}" in before.err
    old = body(small.here("kernels", "diff", UNITS[0], ".", "--json"), 1)["before"]["derivation"]
    small.here("kernels", "build", FEW)
    after = small.here("kernels", "diff", f"drv:{old}", UNITS[0])
    assert (after.code, after.err) == (1, "")
    assert "kernel.cu\n" in after.out
    assert small.here("kernels", "diff", UNITS[0], ".").code == 0, "what was built last is the edit now"


def test_two_architectures_differ_in_instructions_and_machine_code(small: Small) -> None:
    small.here("kernels", "build", FEW)
    ran = small.here("kernels", "diff", *UNITS[:2])
    assert ran.code == 1
    assert "  gpu: sm_90a -> sm_121a\n" in ran.out
    assert "  HMMA.16816.F32.BF16  1 -> 1\n" in ran.out
    assert "  NOP  0 -> 1  +1\n" in ran.out
    found = body(small.here("kernels", "diff", *UNITS[:2], "--json"), 1)
    assert found["instructions"] == [{"what": "NOP", "before": 0, "after": 1}]
    assert found["source_same"] is True


def test_a_digest_of_an_output_is_an_operand(small: Small) -> None:
    digest = small.here("kernels", "build", UNITS[0]).answer.split()[0]
    assert small.here("kernels", "diff", digest, UNITS[0]).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("list", "skale"), 2, ("no kernel or unit is named 'skale'", "did you mean scale?")),
        (("build", "zzz"), 2, ("no kernel or unit is named 'zzz'", "hint: what there is: derive kernels list")),
        (("check", "scale", "--gpu", "sm_90"), 2, ("--gpu: no architecture", "did you mean sm_90a?")),
        (("build", UNITS[0], "--gpu", "sm_121a"), 2, ("nothing of it is compiled for sm_121a", "expected  sm_90a")),
        (("diff", ".", "."), 2, ("the working tree beside itself", "hint: name what")),
        (("diff", FEW, "."), 2, (f"{FEW!r} is 2 units", "hint: name one of them")),
        (("diff", "skale", "."), 2, ("no kernel or unit is named 'skale'",)),
        (("diff", UNITS[0], "."), 3, (f"nothing of {UNITS[0]} was built", "derive kernels build")),
        (("diff", "drv:123456789abc", "."), 2, ("nothing that this store knows is drv:123456789abc",)),
        (("diff", "tree:xyz", "."), 2, ("'tree:xyz' is no digest",)),
    ],
)
def test_what_nothing_has_is_told_with_one_next_step(
    small: Small, arguments: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    ran = small.here("kernels", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert "a fault of derive" not in ran.err
    for text in words:
        assert text in ran.err


def test_a_step_that_is_no_unit_is_no_side(small: Small) -> None:
    small.here("kernels", "build", UNITS[0])
    root = json.loads(small.here("build", "root", "--json").out)["body"]["derivation"]
    host = json.loads(small.here("kernels", "build", UNITS[0], "--json").out)["body"]["units"][0]["outputs"]["x86_64"]
    for operand in (f"drv:{root}", host.removeprefix("nar:")):
        ran = small.here("kernels", "diff", operand, UNITS[0])
        assert ran.code == 2, ran.err
        assert "is no compiled unit" in ran.err


def test_a_project_without_kernels_has_none(small: Small) -> None:
    for path in sorted((small.root / "kernels").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (small.root / "derivations/k.toml").unlink()
    for arguments, said in ((("list",), "the project has no kernels\n"), (("build",), "0 units: 0 in the store")):
        ran = small.here("kernels", *arguments)
        assert (ran.code, ran.out) == (0, "")
        assert said in ran.err
    assert small.here("kernels", "check").code == 0


def test_outputs_that_were_collected_are_gone_and_come_back(small: Small) -> None:
    small.here("kernels", "build", UNITS[0])
    time.sleep(0.01)
    assert small.derive("store", "gc", "--keep", "run").code == 0
    row = small.here("kernels", "list", UNITS[0]).out.splitlines()[1]
    assert row.split()[1:] == ["1-64", "gone"]
    assert small.here("kernels", "diff", UNITS[0], ".").code == 0
    assert small.here("kernels", "build", UNITS[0]).code == 0
    assert small.here("kernels", "list", UNITS[0]).out.splitlines()[1].split()[2] == "yes"
