# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from derive.errors import InputErrors
from derive.kernels import bench
from derive.kernels.bench import gpu_refusal, keep_report
from derive.project import Project, load_project
from support.cli import derive

PYPROJECT = '[tool.derive]\nformat = 1\ndefault-image = "probe"\nbuild-platform = "linux/amd64"\n'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    return load_project(tmp_path)


def run(*, well: bool = True, card: str | None = "NVIDIA H200") -> bytes:
    document: dict[str, Any] = {
        "derive": "kernel-run/1",
        "bundle": {"units": []},
        "machine": {"card": None if card is None else {"name": card}},
        "parts": {"boot": {"ok": well, "seconds": 1}},
        "boot": {"ok": well},
    }
    return json.dumps(document).encode()


def test_a_report_becomes_a_record_with_its_plot_beside_it(project: Project) -> None:
    kept = keep_report(project, run(), where="r", name=None)
    assert kept.record.parent == project.root / "records/kernels"
    assert kept.record.name.startswith("nvidia-h200-")
    document = json.loads(kept.record.read_bytes())
    assert (document["derive"], document["kind"], document["body"]["run"]) == (
        "record/1",
        "kernel-report",
        json.loads(run()),
    )
    assert kept.picture == kept.record.with_suffix(".svg")
    assert kept.picture.read_text().startswith("<svg ")


def test_the_same_report_twice_is_one_record(project: Project) -> None:
    first, second = (keep_report(project, run(), where="r", name=None) for _ in range(2))
    assert first.record == second.record
    assert len(list((project.root / "records/kernels").iterdir())) == 2


def test_a_record_is_never_written_over(project: Project) -> None:
    kept = keep_report(project, run(), where="r", name="first")
    before = kept.record.read_bytes()
    with pytest.raises(InputErrors) as caught:
        keep_report(project, run(well=False), where="r", name="first")
    assert caught.value.problems()[0].message == "there is another record of the name first"
    assert kept.record.read_bytes() == before


@pytest.mark.parametrize("name", ["../x", "", ".hidden", "a b", "X"])
def test_a_name_that_is_no_file_name_is_refused(project: Project, name: str) -> None:
    with pytest.raises(InputErrors, match="1 problem"):
        keep_report(project, run(), where="r", name=name)
    assert not (project.root / "records").exists()


def test_a_run_without_a_gpu_is_no_record(project: Project) -> None:
    with pytest.raises(InputErrors) as caught:
        keep_report(project, run(card=None), where="r", name=None)
    assert caught.value.problems()[0].message == "the run saw no GPU, so there is nothing to keep"


def test_the_command_ends_with_1_when_the_run_was_not_well(tmp_path: Path, project: Project) -> None:
    (tmp_path / "report.json").write_bytes(run(well=False))
    ran = derive("kernels", "bench", "--record", str(tmp_path / "report.json"), "--project", str(project.root))
    assert ran.code == 1
    assert Path(ran.out.strip()).is_file()
    assert "boot      NOT WELL" in ran.err


def test_a_report_that_is_not_there_is_wrong_usage(tmp_path: Path, project: Project) -> None:
    ran = derive("kernels", "bench", "--record", str(tmp_path / "none"), "--project", str(project.root))
    assert (ran.code, ran.out) == (2, "")
    assert "no such file" in ran.err


def test_without_a_gpu_the_command_says_where_to_go(project: Project, tmp_path: Path) -> None:
    if any(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("this machine has a GPU")
    ran = derive("kernels", "bench", "--project", str(project.root), "--store", str(tmp_path / "store"))
    assert (ran.code, ran.out) == (3, "")
    assert "this machine has no NVIDIA GPU" in ran.err
    assert "derive kernels bench --pack FILE" in ran.err
    assert not (tmp_path / "store").exists()


def test_a_python_without_torch_or_without_a_gpu_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(bench, "DEVICES", tmp_path)
    blind = tmp_path / "blind"
    blind.write_text("#!/bin/sh\nexit 9\n")
    blind.chmod(stat.S_IRWXU)
    assert gpu_refusal(str(blind)) == f"torch of {blind} sees no GPU"
    assert gpu_refusal(str(tmp_path / "none")) == f"{tmp_path}/none cannot be run: no such file or directory"
    assert gpu_refusal(sys.executable) == f"{sys.executable} has no torch"
