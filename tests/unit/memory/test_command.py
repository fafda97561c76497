# SPDX-License-Identifier: Apache-2.0
"""``derive memory``: which shapes, what is printed where, and exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from derive.cli.main import main
from derive.project import LAUNCH_ROOTS
from support.cli import CHECKOUT
from support.ledgers import shard


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """Return a copy of the project's content with recipes that may be written to."""
    (tmp_path / "pyproject.toml").write_bytes((CHECKOUT / "pyproject.toml").read_bytes())
    for name in LAUNCH_ROOTS:
        shutil.copytree(CHECKOUT / name, tmp_path / name)
    return tmp_path


def ran(capfd: pytest.CaptureFixture[str], root: Path, *words: str) -> tuple[int, str, str]:
    code = main(["memory", *words, "--project", str(root)])
    out, err = capfd.readouterr()
    return code, out, err


def engram_in_memory(root: Path) -> None:
    file = root / "recipes" / "ds41f.toml"
    text = file.read_text()
    assert 'engram = "disk"' in text
    file.write_text(text.replace('engram = "disk"', 'engram = "memory"'))


def test_every_shape_of_the_projects_recipe_fits(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capfd, CHECKOUT, "--all", "--json")
    ledgers = json.loads(out)["body"]["ledgers"]
    assert code == 0, err
    assert {one["shape"]: one["fits"] for one in ledgers} == {
        "tp4-ring": True,
        "tp3-triangle": True,
        "tp3-triangle-4k": True,
    }


def test_the_answer_stands_on_standard_output_and_remarks_beside_it(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capfd, CHECKOUT)
    assert code == 0
    assert out.startswith("ds41f tp4-ring: one of 4 ranks\n")
    assert "MemAvailable" in out
    assert "a table, not a checkpoint" in err


def test_a_record_has_the_shape_as_its_subject(capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = ran(capfd, CHECKOUT, "--shape", "tp3-triangle", "--json")
    record = json.loads(out)
    assert (record["kind"], record["subject"]) == ("memory", "ds41f/tp3-triangle")


def test_engram_in_memory_is_refused_for_every_shape_with_its_line(
    changed: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    engram_in_memory(changed)
    code, out, err = ran(capfd, changed, "--all")
    assert code == 1
    assert out.splitlines()[-1].count("no: Engram") == 3
    assert err.count("Engram: tables in memory") == 3
    assert err.count('hint: leave the tables on disk: memory.engram = "disk"') == 3


def test_shapes_are_read_from_a_checkpoint_at_hand(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.safetensors").write_bytes(shard({"layers.0.attn.wq_a.weight": ("F8_E4M3", [1280, 5120])}))
    code, out, err = ran(capfd, CHECKOUT, "--index", str(tmp_path), "--json")
    [found] = json.loads(out)["body"]["ledgers"]
    assert code == 0
    assert found["from_checkpoint"]
    assert found["rows"][0]["row_bytes"] == 1280 * 5120 * 33 // 32
    assert "a table, not a checkpoint" not in err


def test_an_index_whose_files_are_not_there_leaves_the_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"embed.weight": "a.safetensors"}}))
    code, _, err = ran(capfd, CHECKOUT, "--index", str(index))
    assert code == 0
    assert "so shapes are the table's" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--recipe", "probe"), "recipes/probe.toml: no [memory] table, and so nothing to predict"),
        (("--recipe", "nope"), "no recipe is called 'nope'"),
        (("--shape", "nope"), "no shape 'nope' in this recipe"),
        (("--index", "/nowhere"), "/nowhere: no index of a checkpoint here"),
    ],
)
def test_what_is_not_there_is_told(words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capfd, CHECKOUT, *words)
    assert (code, out) == (2, "")
    assert said in err


def test_two_recipes_with_memory_ask_for_one(changed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recipes = changed / "recipes"
    (recipes / "other.toml").write_bytes((recipes / "ds41f.toml").read_bytes())
    code, _, err = ran(capfd, changed)
    assert code == 2
    assert "several recipes say what memory there is: ds41f, other" in err


def test_the_same_is_printed_wherever_the_project_lies(changed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert ran(capfd, changed) == ran(capfd, CHECKOUT)


def test_faults_of_facts_are_told_with_those_of_the_recipe(capfd: pytest.CaptureFixture[str], changed: Path) -> None:
    facts, recipe = changed / "recipes/ds41f/memory.toml", changed / "recipes/ds41f.toml"
    facts.write_text(facts.read_text().replace("format = 1", "format = 2", 1))
    recipe.write_text(recipe.read_text().replace("port = 8000", "port = 0", 1))
    wrong = ("recipes/ds41f.toml: service.port", "recipes/ds41f/memory.toml: format")
    code, _, err = ran(capfd, changed)
    assert (code, *(f"error: {place}" in err for place in wrong)) == (2, True, True)
    for command in ("render", "doctor"):
        main([command, "--project", str(changed)])
        said = "".join(capfd.readouterr())
        assert [place for place in wrong if place not in said] == [], command
