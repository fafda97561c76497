# SPDX-License-Identifier: Apache-2.0
"""What is said of recipes that are wrong, to be read as a person meets it: one file for each class of error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from derive.cli.console import print_error
from derive.errors import DeriveError, InputErrors
from derive.recipes.load import load_recipe
from derive.recipes.resolve import resolve
from derive.recipes.why import why
from derive.render.chosen import Chosen
from derive.render.inputs import read_inputs
from support.golden import check_golden
from support.launching import write_files
from support.recipes import SMALL, edited, files, launching, loaded, resolved

TRIANGLE = 'tuning = "tp3"'
WHY = '{ absent = "why" }'

WRONG = {
    "not-toml": SMALL.replace("[model]", "[model"),
    "keys-and-forms": edited(
        ("port = 8000", 'port = "8000"\nprot = 1'),
        ('EMPTY = ""', "EMPTY = 0\n1ST = ''"),
        ('floor = "5GiB"', 'floor = "5G"'),
        ('interval = "2"', "interval = 0"),
        (TRIANGLE, f'{TRIANGLE}\nneeds = "one-prefill"\ncontainer = ["--ipc=host"]'),
    ),
    "missing": edited(
        ('cabling = "triangle"\n', ""), ("master-port = 9999\n", ""), ("wait = 120\n", ""), ("format = 1\n", "")
    ),
    "default-shape": edited(('default-shape = "ring"', 'default-shape = "square"')),
    "absent-of-nothing": edited(
        ('EMPTY = ""', f'EMPTY = ""\nGONE = {WHY}'), (TRIANGLE, f"{TRIANGLE}\nenvironment = {{ OTHER = {WHY} }}")
    ),
    "typed-and-derived": edited(
        ("max-num-seqs = 4", "max-num-seqs = 4\ntensor-parallel-size = 4\nlong-prefill-token-threshold = 500"),
        ('SET = "here"', 'SET = "here"\nNCCL_ALGO = "Ring"\nNCCL_IB_HCA = "rocep1s0f0"'),
        (TRIANGLE, f"{TRIANGLE}\narguments = {{ speculative-config = {{ draft_tensor_parallel_size = 3 }} }}"),
    ),
    "names-of-other-files": edited(
        ('image = "ds41f"', 'image = "ds42f"'),
        ('transport = "nccl-ring"', 'transport = "nccl-rings"'),
        (TRIANGLE, 'tuning = "tp5"'),
        ("deepseek-v4-1-flash-1017", "deepseek-v4-1-flash-1071"),
    ),
    "rules-cannot-count": edited(("max-num-seqs = 4", "max-num-seqs = 200"), ("_tokens = 2", '_tokens = "2"')),
    "no-room": edited(("max-num-seqs = 4", "max-num-seqs = 200")),
    "not-together": edited(
        ('floor = "5GiB"', 'floor = "3GiB"'),
        ("[environment]", '[dropped]\nSET = "read by nothing"\n[environment]'),
        (TRIANGLE, f'{TRIANGLE}\ncache = {{ target = "/model" }}'),
    ),
    "no-model": SMALL.partition("[model]")[0] + "[service]" + SMALL.partition("[service]")[2],
}


def told(error: DeriveError, capsys: pytest.CaptureFixture[str]) -> str:
    print_error(error)
    return capsys.readouterr().err


@pytest.mark.parametrize("name", WRONG)
def test_everything_wrong_with_a_recipe_is_told_at_once(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputErrors) as caught:
        loaded(WRONG[name])
    check_golden(f"recipes/{name}.txt", told(caught.value, capsys))


def test_what_is_asked_for_and_not_there_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for ask in (
        lambda: load_recipe(files(), "smalls"),
        lambda: load_recipe({}, "small"),
        lambda: resolve(loaded(), "tringle"),
        lambda: resolve(loaded(), "tp4"),
        lambda: why(resolved(), "max-num-seq"),
        lambda: why(resolved(), "nothing like it"),
    ):
        with pytest.raises(InputErrors) as caught:
            ask()
        texts.append(told(caught.value, capsys))
    check_golden("recipes/not-there.txt", "\n".join(texts))


def test_a_lock_that_is_behind_its_wish_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    head, table, rest = launching()["lock/model.toml"].partition(b"[huggingface.deepseek-v4-1-flash-1017]")
    moved = head + table + rest.replace(b"deepseek-ai/", b"elsewhere/", 1)
    with pytest.raises(InputErrors) as caught:
        load_recipe(files(others={"lock/model.toml": moved}), "small")
    check_golden("recipes/lock-behind.txt", told(caught.value, capsys))


def _project(folder: Path, changes: Mapping[str, tuple[str, str]]) -> Path:
    """Write the checkout's launching files and the small recipe below a folder, with a text in each replaced."""
    data = files()
    for path, (old, new) in changes.items():
        assert old.encode() in data[path], path
        data[path] = data[path].replace(old.encode(), new.encode(), 1)
    return write_files(data, folder)


def _refused(root: Path, environ: Mapping[str, str], capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    with pytest.raises(InputErrors) as caught:
        read_inputs(root, Chosen(recipe="small"), environ, "small")
    text = told(caught.value, capsys).replace(f"{root.parent}/", "")
    return text, [line.split(": ")[1] for line in text.splitlines() if line.startswith("error: ") and ": " in line[7:]]


def test_faults_in_three_files_that_cannot_be_read_are_told_by_one_rendering(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"recipes/small.toml": ("port = 8000", "port = 0"), "fabric/tuning/tp4.toml": ("nodes = 4", "nodes = 0")}
    root = _project(tmp_path / "project", changes)
    site = root.parent / "site.toml"
    site.write_bytes(files()["fabric/examples/ring4.toml"].replace(b"192.0.2.12", b"192.0.2.512", 1))
    text, places = _refused(root, {"DERIVE_SITE": str(site)}, capsys)
    check_golden("recipes/three-files.txt", text)
    assert places == ["site.toml", "fabric/tuning/tp4.toml", "recipes/small.toml"]


def test_faults_in_three_files_that_do_not_go_together_are_told_by_one_rendering(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {
        "recipes/small.toml": ("max-num-seqs = 4", "max-num-seqs = 4\nmax-num-batch = 1"),
        "images/ds41f.toml": ("[capabilities]", "[capabilities]\nwrong = 1"),
        "render/run.j2": ("#!", "{{ name }}\n#!"),
    }
    text, places = _refused(_project(tmp_path / "project", changes), {"HOME": "/nonexistent"}, capsys)
    check_golden("recipes/three-files-judged.txt", text)
    assert places == ["images/ds41f.toml", *["recipes/small.toml"] * 3, "render/run.j2"]
