# SPDX-License-Identifier: Apache-2.0
"""derive site and derive tuning, as a person meets them."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from derive.cli.main import main
from derive.fabric.facts import KIND
from derive.fabric.places import read_site
from derive.records.model import record
from support.cli import CHECKOUT
from support.fabrics import example_site
from support.network_facts import facts_of_site

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the user a folder of their own, and return where the site file is looked for."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("USER", "operator")
    monkeypatch.delenv("DERIVE_SITE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "config" / "derive" / "site.toml"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], config: Path) -> Run:
    del config  # wanted for what it sets

    def ran(*arguments: str) -> tuple[int, str, str]:
        code = main(["--project", str(CHECKOUT), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return ran


def write_facts(folder: Path, cabling: str = "ring4") -> list[str]:
    folder.mkdir()
    files = []
    for facts in facts_of_site(example_site(cabling)):
        file = folder / f"{facts.host}.json"
        file.write_text(json.dumps(record(KIND, facts.host, facts.body())))
        files.append(str(file))
    return files


def test_a_site_is_written_for_its_owner_alone_and_the_next_step_said(run: Run, config: Path) -> None:
    code, out, err = run("site", "init", "--nodes", "a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3", "--name", "lab")
    assert (code, out) == (0, f"{config}\n")
    assert err == "next: derive site check, then: derive site shape NAME --apply\n"
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert run("site", "check")[0] == 0


def test_what_is_there_is_left(run: Run, config: Path) -> None:
    assert run("site", "init", "--cabling", "triangle")[0] == 0
    before = config.read_bytes()
    code, out, err = run("site", "init", "--cabling", "ring4")
    assert (code, out) == (2, "")
    assert "is there already, and is left as it is" in err
    assert config.read_bytes() == before
    assert [one.name for one in config.parent.iterdir()] == ["site.toml"]


def test_names_without_addresses_are_to_be_filled_in(run: Run, tmp_path: Path) -> None:
    code, _, err = run("site", "init", "--cabling", "triangle", str(tmp_path / "lab.toml"))
    assert code == 0
    assert "put the machines' names and addresses into" in err
    _, _, err = run("site", "check", "--site", str(tmp_path / "lab.toml"))
    assert "warning: " in err
    assert "192.0.2.11 is an address of documentation" in err


@pytest.mark.parametrize(
    "words",
    [
        ("a=192.0.2.1", "b=192.0.2.2", "c=192.0.2.3"),
        ("a=192.0.2.1,b=192.0.2.2,c=192.0.2.3",),
        ("a=192.0.2.1,", "b=192.0.2.2,", "c=192.0.2.3"),
    ],
)
def test_a_file_may_stand_after_nodes_which_have_spaces_or_commas_between(
    run: Run, config: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    code, out, err = run("site", "init", "--nodes", *words, "lab.toml")
    assert (code, out) == (0, "lab.toml\n")
    assert err == "next: derive site check --site lab.toml, then: derive site shape NAME --site lab.toml --apply\n"
    assert [node.name for node in read_site(tmp_path / "lab.toml").site.nodes] == ["a", "b", "c"]
    assert not config.exists()


def test_a_file_may_stand_after_facts(run: Run, tmp_path: Path) -> None:
    assert run("site", "init", "--facts", *write_facts(tmp_path / "facts"), "lab.toml")[:2] == (0, "lab.toml\n")
    assert len(read_site(tmp_path / "lab.toml").site.nodes) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--nodes", "a", "x.toml", "b", "c"), ["--nodes: the name of a file, and of no machine: 'x.toml'"]),
        (("--nodes", "a", "./b", "c/d"), ["of no machine: './b'", "of no machine: 'c/d'"]),
        (("--nodes", "a=10.0.0.1", "b", "c=10.0.0.3"), ["an address for some nodes, and none for b"]),
        (("one.toml", "--nodes", "a", "b", "c", "two.toml"), ["--nodes: two files: one.toml and two.toml"]),
        (("--facts", "lab.toml"), ["--facts: nothing but a file: lab.toml"]),
        (("--nodes", ","), ["--nodes: names no node"]),
    ],
)
def test_what_is_no_list_of_nodes_is_refused_before_anything_is_written(
    run: Run, config: Path, tmp_path: Path, arguments: tuple[str, ...], said: list[str]
) -> None:
    code, out, err = run("site", "init", *arguments)
    assert (code, out) == (2, "")
    assert all(text in err for text in said)
    assert not config.exists()
    assert not list(tmp_path.glob("*.toml"))


@pytest.mark.parametrize(
    ("file", "name"), [(None, "lab"), ("site.toml", "lab"), ("cellar.toml", "cellar"), ("a b.toml", "lab")]
)
def test_a_site_without_a_name_is_called_as_its_file_unless_that_says_nothing(
    run: Run, config: Path, file: str | None, name: str
) -> None:
    assert run("site", "init", "--cabling", "triangle", *([] if file is None else [file]))[0] == 0
    assert read_site(config if file is None else Path(file)).site.name == name


def test_two_sparks_are_refused_before_anything_is_written(run: Run, config: Path) -> None:
    code, out, err = run("site", "init", "--nodes", "a=10.0.0.1", "b=10.0.0.2")
    assert (code, out) == (2, "")
    assert "two Sparks are refused: " in err
    assert not config.parent.exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--home", "/home/op\\u0041"),
        ("--home", '/home/op"\nimages = "x'),
        ("--name", 'a"\nfolder = "/etc'),
        ("--ssh-user", "op\udcff"),
        ("--interface", "en\tp7"),
        ("--nodes", 'a"b'),
    ],
)
def test_what_no_site_may_say_is_refused_by_its_option(run: Run, config: Path, option: str, value: str) -> None:
    code, out, err = run("site", "init", "--cabling", "triangle", option, value)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {option}: nothing that a site can say\n")
    assert not config.parent.exists()


def test_a_site_comes_from_facts_and_is_checked_against_them(run: Run, config: Path, tmp_path: Path) -> None:
    files = write_facts(tmp_path / "facts")
    assert run("site", "init", "--facts", *files)[0] == 0
    code, out, _ = run("site", "check", "--facts", *files)
    assert (code, out.count("pass")) == (0, 4)
    code, out, _ = run("site", "check", "--facts", *files[:3])
    assert code == 1
    assert "unknown" in out
    config.write_text(config.read_text().replace('"enP7s7"', '"enP7s8"'))
    code, out, _ = run("site", "check", "--facts", *files)
    assert code == 1
    assert "no interface enP7s8 on spark1" in out
    assert "there are docker0, enP2p1s0f0np0" in out
    assert "\n    fix       did you mean enP7s7?" in out


def test_facts_that_cannot_be_read_are_all_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    code, _, err = run("site", "init", "--facts", "absent.json", "bad.json")
    assert code == 2
    assert "absent.json: no such file" in err
    assert "bad.json: body: this key is missing" in err


def test_facts_go_with_no_other_source_of_nodes(run: Run, tmp_path: Path) -> None:
    files = write_facts(tmp_path / "facts")
    assert run("site", "init", "--facts", *files, "--cabling", "ring4")[0] == 2


def test_this_machines_facts_are_a_record(run: Run) -> None:
    code, out, _ = run("site", "facts", "--host", "spark1")
    found = json.loads(out)
    assert (code, found["kind"], found["subject"], found["body"]["host"]) == (0, KIND, "spark1", "spark1")


def test_a_shape_is_picked_only_with_apply(run: Run, config: Path) -> None:
    run("site", "init", "--cabling", "triangle")
    before = config.read_text()
    code, out, err = run("site", "shape", "tp3-triangle")
    assert code == 0
    assert '+ds41f = "tp3-triangle"' in out
    assert "nothing is changed yet" in err
    assert config.read_text() == before
    assert run("site", "shape", "tp3-triangle", "--apply")[0] == 0
    assert 'ds41f = "tp3-triangle"' in config.read_text()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert run("site", "shape", "triangle", "--recipe", "probe", "--apply")[0] == 0
    code, out, _ = run("site", "show", "--json")
    assert json.loads(out)["body"]["shapes"] == {"ds41f": "tp3-triangle", "probe": "triangle"}


def test_a_shape_for_another_cabling_or_of_no_recipe_is_refused_with_those_that_fit(run: Run, config: Path) -> None:
    run("site", "init", "--cabling", "triangle")
    code, _, err = run("site", "shape", "tp4-ring", "--apply")
    assert code == 2
    assert "the shape is for ring4, and the site is cabled as triangle" in err
    assert "shapes for triangle: tp3-triangle, tp3-triangle-4k" in err
    code, _, err = run("site", "shape", "tp5", "--apply")
    assert code == 2
    assert "ds41f has no shape tp5" in err
    assert "[shapes]" not in config.read_text()


def test_facts_are_read_without_anything_but_python(tmp_path: Path) -> None:
    sources = tmp_path / "derive-src"
    shutil.copytree(CHECKOUT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
    # -S: without any package that is installed
    words = [sys.executable, "-S", "-B", "-m", "derive", "site", "facts", "--host", "dgx1"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(sources)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout)["subject"] == "dgx1"


def test_without_a_site_the_example_is_shown_and_said(run: Run) -> None:
    code, out, err = run("site", "show", "--cabling", "triangle")
    assert code == 0
    assert "spark3" in out
    example = "the example fabric/examples/triangle.toml is taken, whose addresses are those of documentation"
    assert err == f"note: no site file: {example}\n"


@pytest.mark.parametrize("arguments", [("site", "check"), ("site", "shape", "tp4-ring")])
def test_without_a_site_there_is_nothing_to_check_or_change(run: Run, arguments: tuple[str, ...]) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert "derive site init" in err


def test_the_site_is_the_one_named_then_the_variables_then_the_users(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("user", "variable", "named"):
        monkeypatch.setenv("DERIVE_SITE", str(tmp_path / f"{name}.toml"))
        run("site", "init", "--cabling", "ring4", "--name", name)
    monkeypatch.setenv("DERIVE_SITE", str(tmp_path / "variable.toml"))
    assert "variable" in run("site", "show")[1]
    assert "named" in run("site", "show", "--site", str(tmp_path / "named.toml"))[1].splitlines()[0]
    monkeypatch.setenv("DERIVE_SITE", str(tmp_path / "absent.toml"))
    assert run("site", "show")[0] == 2


def test_profiles_are_listed_and_shown_with_what_each_setting_means(run: Run) -> None:
    assert [line.split()[0] for line in run("tuning", "show")[1].splitlines()[1:]] == ["tp3", "tp4", "tp4-switchless"]
    lines = run("tuning", "show", "tp4")[1].splitlines()
    assert lines[0].split() == ["setting", "for", "value", "default", "meaning"]
    assert any(line.split()[:3] == ["NCCL_BUFFSIZE", "nccl", "4194304"] for line in lines)
    assert any(line.split()[:2] == ["NCCL_SWITCHLESS_BIDIRECTIONAL", "nccl"] for line in lines)
    assert not any("NCCL_SWITCHLESS" in line for line in run("tuning", "show", "tp3")[1].splitlines())
    code, _, err = run("tuning", "show", "tp5")
    assert code == 2
    assert "did you mean" in err


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str], config: Path) -> Run:
    del config  # wanted for what it sets
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text(
        '[tool.derive]\nformat = 1\ndefault-image = "x"\nbuild-platform = "linux/amd64"\n'
    )
    shutil.copytree(CHECKOUT / "fabric", root / "fabric")

    def ran(*arguments: str) -> tuple[int, str, str]:
        code = main(["--project", str(root), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return ran


def test_a_profile_is_made_from_another_and_never_over_one(project: Run, tmp_path: Path) -> None:
    settings = ("NCCL_BUFFSIZE=1048576", "NCCL_THREAD_THRESHOLDS=", "SPARKNET_ROCE_ALLGATHER_MAX_BYTES=1048576")
    code, out, err = project("tuning", "create", "small", "--from", "tp4", *settings)
    assert (code, out) == (0, "fabric/tuning/small.toml\n")
    assert err == 'next: name it in a shape, tuning = "small"\n'
    text = (tmp_path / "project" / "fabric" / "tuning" / "small.toml").read_text()
    assert 'NCCL_BUFFSIZE = "1048576"' in text
    assert "NCCL_THREAD_THRESHOLDS =" not in text
    assert "small" in project("tuning", "show")[1]
    assert project("tuning", "create", "small", "--from", "tp4")[0] == 2
    assert project("tuning", "create", "other", "NCCL_BUFFSIZE=16", "--from", "tp4")[0] == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["NCCL_ALGO=Tree"], "NCCL_ALGO is required by transports"),
        (["NCCL_BUFSIZE=1"], "did you mean NCCL_BUFFSIZE?"),
        (["NCCL_ALGO=Tree", "NCCL_BUFSIZE=1", "NCCL_BUFFSIZE=\udcff"], "3 problems in the input"),
        (["NCCL_BUFFSIZE=16\nnodes = 3"], "NCCL_BUFFSIZE: a value that no variable can have"),
        (['NCCL_THREAD_THRESHOLDS=1"\\u0041'], "NCCL_THREAD_THRESHOLDS is not six whole numbers"),
        (["NCCL_BUFFSIZE"], "not of the form SETTING=VALUE"),
        (["NCCL_MIN_NCHANNELS=8"], "NCCL_MIN_NCHANNELS is above the most"),
        (["SPARKNET_ROCE_ALLREDUCE_DISPATCH_MAX_BYTES=4194304"], "is above the capacity"),
        (["NCCL_MIN_TRAFFIC_PER_CHANNEL=512"], "NCCL_SWITCHLESS_BIDIRECTIONAL is not 2"),
    ],
)
def test_a_wrong_profile_is_refused_and_not_written(
    project: Run, tmp_path: Path, settings: list[str], said: str
) -> None:
    code, out, err = project("tuning", "create", "wrong", "--from", "tp4", *settings)
    assert (code, out) == (2, "")
    assert said in err
    assert not (tmp_path / "project" / "fabric" / "tuning" / "wrong.toml").exists()


def test_a_check_is_a_record_too(run: Run, tmp_path: Path) -> None:
    files = write_facts(tmp_path / "facts")
    run("site", "init", "--facts", *files)
    code, out, _ = run("site", "check", "--json", "--facts", *files)
    assert code == 0
    assert [one["verdict"] for one in json.loads(out)["body"]["findings"]] == ["pass"] * 4
