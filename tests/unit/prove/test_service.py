# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import InputErrors
from derive.prove.judge import lines
from derive.prove.service import Proof, Question, prove
from derive.prove.statement import rows
from derive.render.folder import write_folder
from derive.render.inputs import Chosen, Inputs
from derive.render.service import render

ROOT = Path(__file__).parents[3]
IMAGE = sha256(b"an image")
NOWHERE = {"HOME": "/nonexistent"}


def no_image(_: Inputs) -> Digest:
    raise AssertionError("the folder says which image")


def asked(node: str, folder: Path, **chosen: str) -> Proof:
    return prove(ROOT, Question(node=node, chosen=Chosen(**chosen), folder=folder), NOWHERE, no_image, "ds41f")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = render(ROOT, Chosen(recipe="probe"), NOWHERE, lambda _: IMAGE, "probe")
    path = tmp_path_factory.mktemp("rendered") / "launch"
    write_folder(found.bundle.files, path)
    return path


@pytest.fixture
def folder(rendered: Path, tmp_path: Path) -> Path:
    return shutil.copytree(rendered, tmp_path / "launch")


def test_a_rendered_folder_is_proved_from_what_its_manifest_says(folder: Path) -> None:
    proof = asked("spark3", folder)
    assert proof.verdict.same
    own = [path for path in (folder / "spark3").rglob("*") if path.is_file()]
    assert proof.verdict.files == len([*own, *folder.glob("*.json")])
    made = proof.statement
    assert (made.node, made.rank, made.recipe, made.shape) == ("spark3", 2, "probe", "ring4")
    assert made.image_digest == IMAGE
    assert made.model is None
    assert not made.locks  # what they pin is in the image's digest
    assert dict(rows(made))["launch"] == str(made.launch)


def test_a_changed_byte_is_found_with_its_file_and_line(folder: Path) -> None:
    path = folder / "spark1" / "run"
    text = path.read_text()
    at = text.index("docker")
    path.write_text(text[:at] + "D" + text[at + 1 :])
    verdict = asked("spark1", folder).verdict
    (one,) = verdict.differing
    assert (one.path, one.offset, one.line) == ("spark1/run", at, text.count("\n", 0, at) + 1)
    said = list(lines(verdict))
    assert said[0] == f"not the same bytes as in {folder}"
    assert [line.split("  ")[1] for line in said[2:4]] == ["in the folder", "rendered now"]
    assert said[-1] == "moved     no input: the file was changed by hand"
    assert asked("spark2", folder).verdict.same


def test_the_schemas_derivation_and_the_lock_that_pins_the_model_are_named(tmp_path: Path) -> None:
    found = render(ROOT, Chosen(recipe="ds41f"), NOWHERE, lambda _: IMAGE, "ds41f")
    write_folder(found.bundle.files, tmp_path / "launch")
    made = asked("spark1", tmp_path / "launch").statement
    assert list(made.locks) == ["lock/model.lock.json"]
    assert re.search(r", drv:[0-9a-f]{12}$", dict(rows(made))["schema"])


def test_what_the_image_can_do_is_an_input_that_may_move(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"deployable": true', b'"deployable": false'))
    verdict = asked("spark1", folder).verdict
    assert verdict.moved == (("deployable", "false", "true"),)
    assert "changed by hand" not in "\n".join(lines(verdict))


def test_files_that_came_or_went_are_found(folder: Path) -> None:
    (folder / "spark1" / "run").unlink()
    (folder / "spark1" / "more").write_text("x")
    found = asked("spark1", folder).verdict.differing
    assert [(one.path, one.expected, one.got) for one in found] == [
        ("spark1/more", "a file of 1 bytes", "no such file"),
        ("spark1/run", "no such file", found[1].got),
    ]


def test_a_script_that_cannot_be_run_any_more_is_found(folder: Path) -> None:
    (folder / "spark1" / "run").chmod(0o644)
    (folder / "spark2" / "run").chmod(0o700)
    (one,) = asked("spark1", folder).verdict.differing
    assert (one.path, one.offset, one.expected) == ("spark1/run", None, "mode 644, which cannot be run")
    assert asked("spark2", folder).verdict.same


def test_a_fifo_in_a_rendered_folder_is_not_waited_for(folder: Path) -> None:
    (folder / "spark1" / "run").unlink()
    os.mkfifo(folder / "spark1" / "run")
    signal.alarm(20)
    try:
        assert [one.path for one in asked("spark1", folder).verdict.differing] == ["spark1/run"]
    finally:
        signal.alarm(0)


def test_the_input_that_moved_is_named(folder: Path, tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    text = (ROOT / "fabric" / "examples" / "ring4.toml").read_text()
    site.write_text(text.replace("192.0.2.12", "192.0.2.99"))
    verdict = asked("spark1", folder, site=str(site)).verdict
    assert not verdict.same
    assert [what for what, _, _ in verdict.moved] == ["site"]


def test_what_is_no_rendered_folder_or_has_no_such_node_is_refused(folder: Path, tmp_path: Path) -> None:
    for node, place in (("spark9", folder), ("spark1", tmp_path), ("spark1", tmp_path / "none")):
        with pytest.raises(InputErrors) as refused:
            asked(node, place)
        assert all(one.hint for one in refused.value.problems())
    (folder / "manifest.json").write_text('{"derive": "launch-manifest/1", "recipe": "probe", "image": "x"}')
    with pytest.raises(InputErrors) as refused:
        asked("spark1", folder)
    assert refused.value.problems()[0].message == "not a digest"


def test_other_processes_render_the_same_bytes() -> None:
    question = Question(node="spark3", chosen=Chosen(recipe="probe", shape="triangle"), image=IMAGE)
    proof = prove(ROOT, question, NOWHERE, no_image, "ds41f")
    assert proof.verdict.same
    assert proof.verdict.against.startswith("rendered here and in two processes of other hash seed")
    assert any("documentation" in note for note in proof.notes)
