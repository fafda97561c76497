# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from derive.cli.main import main
from support.former import cluster, encoded, node_map

ROOT = Path(__file__).parents[3]
IMAGE = "sha256:" + "ab" * 32


@pytest.fixture(autouse=True)
def _nobodys_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("DERIVE_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("DERIVE_SITE", raising=False)


def ran(*arguments: str) -> int:
    return main(["--project", str(ROOT), *arguments])


def test_import_writes_what_was_imported_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ring.json").write_bytes(encoded(cluster(4)))
    (tmp_path / "nodes.json").write_bytes(encoded(node_map(4)))
    asked = ("import", "big=ring.json", "--nodes", "nodes.json", "--name", "served", "--out", "new")
    assert ran(*asked) == 0
    said = capsys.readouterr()
    assert said.out == "new/served.toml\nnew/site.toml\n"
    assert "promoted_baseline " in said.err
    assert "environment.NCCL_ALGO" not in said.err
    assert "[shapes.big]" in (tmp_path / "new" / "served.toml").read_text()
    assert ran(*asked) == 2
    assert "is there already" in capsys.readouterr().err


def test_import_ends_with_1_when_a_key_has_no_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ring.json").write_bytes(encoded({**cluster(4), "strange": 1}))
    assert ran("--json", "import", "ring.json", "--out", "new") == 1
    body = json.loads(capsys.readouterr().out)["body"]
    assert body["files"] == ["new/imported.toml"]
    assert [row["key"] for row in body["keys"] if row["became"] == "unplaced"] == ["strange"]


def test_diff_of_two_shapes_ends_with_1_and_why_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("diff", "shape:tp4-ring", "shape:tp3-triangle") == 1
    assert "~ --nnodes  4 -> 3\n" in capsys.readouterr().out
    assert ran("why", "shape:tp4-ring", "shape:tp3-triangle") == 0
    assert "~ --nnodes  4 -> 3\n    rule ranks: cabling = ring4 -> triangle\n" in capsys.readouterr().out
    assert ran("--json", "diff", "shape:tp4-ring", "shape:tp4-ring") == 0
    assert json.loads(capsys.readouterr().out)["body"]["same"] is True


def test_a_shape_beside_a_derivation_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("diff", "shape:tp4-ring", "perftest") == 2
    assert "perftest is nothing that tells nodes anything" in capsys.readouterr().err


def test_a_rendered_folder_is_an_operand_and_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("render", "--recipe", "probe", "--image", IMAGE, "--out", "launch") == 0
    assert ran("diff", "launch", ".") == 0
    assert ran("prove", "spark1", "--bundle", "launch") == 0
    assert "the same bytes: 14 files, as in launch\n" in capsys.readouterr().out
    (tmp_path / "launch" / "spark1" / "run").write_text("#!/bin/sh\n")
    assert ran("--json", "prove", "spark1", "--bundle", "launch") == 1
    proof = json.loads(capsys.readouterr().out)["body"]["proof"]
    assert [one["path"] for one in proof["differing"]] == ["spark1/run"]
    assert ran("diff", "launch", ".") == 1


def test_keys_of_an_import_stay_in_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ring.json").write_bytes(encoded({**cluster(4), "odd\n\x1b[31mkey": 1}))
    assert ran("import", "ring.json", "--out", "new") == 1
    said = capsys.readouterr().err
    assert "odd\\n\\u001b[31mkey" in said
    assert "\x1b" not in said


def test_words_that_no_option_has_are_the_answer_no(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("schema", "ds41f", "nope") == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "no option or variable of ds41f has all of these words: nope\n"
    assert ran("--json", "schema", "ds41f", "nope") == 1
    assert json.loads(capsys.readouterr().out)["body"]["options"] == {}


@pytest.mark.parametrize("value", ["9" * 5000, "\udcff"])
def test_a_tuned_value_that_nothing_could_read_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("tuning", "create", "never-written", "--from", "tp4", f"NCCL_BUFFSIZE={value}") == 2
    assert "NCCL_BUFFSIZE" in capsys.readouterr().err
    assert not (ROOT / "fabric/tuning/never-written.toml").exists()
