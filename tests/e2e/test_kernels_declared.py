# SPDX-License-Identifier: Apache-2.0
"""Kernels in a project whose root has no compiler: what is declared, what needs none, and how a compile fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kernels import DERIVATIONS, KERNEL_FILES
from support.small import Small, small_project

UNIT = "scale/scale/wide/few/sm_90a"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        for path, text in KERNEL_FILES.items():
            project.write(path, text)
        project.write("derivations/k.toml", DERIVATIONS.replace('root = "root"', 'root = "tools"'))
        yield project


def with_a_python(small: Small) -> None:
    """Give the root something that is called as Python is, and can do nothing."""
    link = '[tools.alternatives]\n"/usr/bin/python3.13" = "/usr/bin/busybox"\n\n[notes]'
    small.edit("derivations/small.toml", "[notes]", link)


def test_sources_are_a_tree_of_their_own(small: Small) -> None:
    tree = small.here("build", "sources").out.strip()
    shown = json.loads(small.here("show", f"tree:{tree}", "--json").out)["body"]["entries"]
    paths = [one["path"] for one in shown if one["type"] == "file"]
    assert paths == ["scale/kernel.py", "scale/kernel.toml", "shared/init.py"]


def test_what_is_declared_is_shown_and_planned(small: Small) -> None:
    declared = small.here("show").out
    assert re.search(r"derivation +cache +derivations/k.toml +kernels", declared)
    assert re.search(r"kernel +scale +kernels/scale +8 units", declared)
    planned = small.here("plan", "cache", "--all").out
    assert len(re.findall(r"^build +kernel ", planned, re.MULTILINE)) == 17
    assert f"{UNIT}@linux/amd64" in planned


def test_a_compile_that_fails_names_the_unit_the_words_and_the_log(small: Small) -> None:
    with_a_python(small)
    ran = small.here("build", UNIT)
    assert ran.code == 3
    assert f"the compiler of {UNIT} failed" in ran.err
    assert "exit status  127" in ran.err
    assert "python3.13: applet not found" in ran.err, "what the compiler said last"
    assert f"derive shell {UNIT} --failed" in ran.err
    log = re.search(r"^  log:  (.*)$", ran.err, re.MULTILINE)
    assert log is not None
    assert "applet not found" in Path(log[1]).read_text()


def test_a_root_without_python_is_said_to_have_none(small: Small) -> None:
    ran = small.here("build", "cache")
    assert ran.code == 3
    assert "the root has no /usr/bin/python3.13 that can run" in ran.err


def test_the_sandbox_of_a_unit_is_entered_with_its_code_and_its_program(small: Small) -> None:
    ran = small.derive("shell", UNIT, "--", "cat", "/in/unit/kernel.py", "/in/unit/unit.json")
    assert ran.code == 0, ran.err
    assert KERNEL_FILES["kernels/scale/kernel.py"] in ran.out
    assert '"gpu":"sm_90a"' in ran.out
    assert small.derive("shell", UNIT, "--", "ls", "/in/unit").out.split() == ["device.py", "kernel.py", "unit.json"]


def test_a_failed_compile_that_is_kept_is_entered_where_it_stopped(small: Small) -> None:
    with_a_python(small)
    assert small.here("build", UNIT, "--keep-failed").code == 3
    ran = small.derive("shell", UNIT, "--failed", "--", "ls", "/in/unit")
    assert ran.out.split() == ["device.py", "kernel.py", "unit.json"], ran.err


def test_a_kernel_is_content_that_moves_what_is_remembered(small: Small) -> None:
    first = json.loads(small.here("show", "--json").out)["body"]["content"]
    small.write("kernels/scale/kernel.py", "x = 1\n")
    assert json.loads(small.here("show", "--json").out)["body"]["content"] != first
