# SPDX-License-Identifier: Apache-2.0
"""What an image takes, as a person asks for it: tables, records, and whether what is pinned is up to date."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.small import run_here

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of what the project declares."""
    for name in ("derivations", "images", "kernels", "lock", "patches", "recipes"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_words_select_options_and_variables() -> None:
    lines = run_here("schema", "--project", str(ROOT), "ds41f", "gpu", "memory-util").answer.splitlines()
    assert [line.split() for line in lines] == [["--gpu-memory-utilization", "float", "0.92"]]
    names = [line.split()[0] for line in run_here("schema", "--project", str(ROOT), "nccl_ib_hca").answer.splitlines()]
    assert names == ["NCCL_IB_HCA"]


def test_a_word_that_nothing_has_is_answered_with_no_and_may_be_a_misspelled_image() -> None:
    ran = run_here("schema", "--project", str(ROOT), "ds42f")
    assert (ran.code, ran.out) == (1, "")
    assert "nor is a schema pinned for an image of that name: did you mean ds41f?" in ran.err


def test_the_record_says_who_reads_a_variable() -> None:
    ran = run_here("schema", "--project", str(ROOT), "NCCL_IB_SUBNET_PREFIX_LEN", "--json")
    body = json.loads(ran.answer)["body"]
    readers = body["variables"]["NCCL_IB_SUBNET_PREFIX_LEN"]["readers"]
    assert readers == {"nvidia-nccl-cu13": "nvidia/nccl/lib/libnccl.so.2"}
    assert body["options"] == {}


def test_what_moved_since_it_was_pinned_is_named_without_building_anything(project: Path) -> None:
    assert run_here("schema", "--project", str(project), "ds41f", "--check").answer == "up to date"
    table = project / "derivations/ds41f-schema/declared.toml"
    table.write_text(table.read_text().replace('    "TZ",\n', ""))
    ran = run_here("schema", "--project", str(project), "ds41f", "--check")
    assert (ran.code, ran.out) == (1, "ds41f-schema-declared moved\n")
    assert "derive schema ds41f --write" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("probe", "--check"), "recipes/probe.schema.json: no argument schema is pinned for image probe"),
        (("probe",), "recipes/probe.schema.json: no argument schema is pinned for image probe"),
        (("probe", "--write", "--offline"), "nothing says how the arguments of probe are read"),
        (("prob", "--write", "--offline"), "no image is named 'prob'"),
    ],
)
def test_an_image_without_a_schema_is_wrong_input(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    ran = run_here("schema", "--project", str(ROOT), "--store", str(tmp_path), *arguments)
    assert ran.code == 2
    assert message in ran.err
