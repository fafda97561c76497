# SPDX-License-Identifier: Apache-2.0
"""`derive render`: what it answers, writes and refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from derive.cli.main import main
from support.cli import CHECKOUT, derive
from support.launching import IMAGE, example_site, project_shape, rendered

PROBE = project_shape("probe", "ring4")
UNSEEN = "note: the image that --image names was not looked at: what it can do is as images/*.toml says\n"


@pytest.fixture(autouse=True)
def _nobodys_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("DERIVE_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("DERIVE_SITE", raising=False)


def ran(*arguments: str, root: Path = CHECKOUT, image: bool = True) -> int:
    return main(["--project", str(root), "render", *arguments, *(("--image", str(IMAGE)) if image else ())])


def copied(folder: Path) -> Path:
    """Copy what decides launch files to a folder, in which it may be changed."""
    for name in ("recipes", "render", "fabric", "images", "lock"):
        shutil.copytree(CHECKOUT / name, folder / name)
    (folder / "pyproject.toml").write_text('[tool.derive]\nformat = 1\ndefault-image = "probe"\n')
    return folder


def changed(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new, 1))


def test_a_node_answers_with_its_script_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("spark2", "--recipe", "probe") == 0
    said = capsys.readouterr()
    assert said.out.encode() == rendered(PROBE).node("spark2")["run"]
    assert said.err == (
        "note: no site file: the example fabric/examples/ring4.toml is taken,"
        " whose addresses are those of documentation\n"
        f"{UNSEEN}"
    )


def test_without_a_node_there_is_a_line_for_each_and_both_digests(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("--recipe", "probe") == 0
    out = capsys.readouterr().out
    found = rendered(PROBE)
    assert [line.split()[:3] for line in out.splitlines()[1:5]] == [
        [node.name, str(node.rank), node.address] for node in example_site(PROBE).nodes
    ]
    assert f"shape bundle   {found.shape}\n" in out
    assert f"launch bundle  {found.launch}\n" in out


def test_a_shape_that_cannot_run_is_rendered_in_full_marked_and_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran("--recipe", "ds41f", "--out", "launch") == 1
    assert "not deployable: needs engram-disk" in capsys.readouterr().err
    manifest = json.loads((tmp_path / "launch/manifest.json").read_text())
    assert manifest["deployable"] is False
    assert "engram-disk" in {need["capability"] for need in manifest["needs"]}
    assert set(manifest["nodes"]) == {path.parent.name for path in tmp_path.glob("launch/*/run")}


def test_the_files_are_the_same_wherever_and_however_the_command_runs(tmp_path: Path) -> None:
    asked = ("render", "--recipe", "ds41f", "--image", str(IMAGE), "--out")
    other = copied(tmp_path / "elsewhere")
    for number, (root, locale) in enumerate(((CHECKOUT, "C"), (other, "C.UTF-8"))):
        variables = {"LC_ALL": locale, "LANG": locale, "TZ": f"Etc/GMT+{number}", "PYTHONHASHSEED": str(number)}
        done = derive("--project", str(root), *asked, str(tmp_path / str(number)), env=variables, shuffled=number == 1)
        assert done.code == 1, done.err
    first, second = (files_below(tmp_path / str(number)) for number in range(2))
    assert first == second
    expected = rendered(project_shape("ds41f", "tp4-ring")).files
    assert first.keys() == expected.keys()
    assert {path for path in first if first[path] != expected[path] and "manifest" not in path} == set()


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_why_of_a_node_is_the_value_that_it_alone_has(capsys: pytest.CaptureFixture[str]) -> None:
    for key, first in (
        ("VLLM_HOST_IP", "environment.VLLM_HOST_IP = 192.0.2.12  on spark2"),
        ("--node-rank", "arguments.node-rank = 1  on spark2"),
        ("dtype", "arguments.dtype = bfloat16"),
    ):
        assert ran("spark2", "--recipe", "ds41f", f"--why={key}", image=False) == 0
        assert capsys.readouterr().out.splitlines()[0] == first
    assert ran("dgx9", "--recipe", "ds41f", "--why", "dtype", image=False) == 2


def test_a_shape_at_a_site_of_another_cabling_is_refused_for_that_alone(capsys: pytest.CaptureFixture[str]) -> None:
    ring = str(CHECKOUT / "fabric/examples/ring4.toml")
    assert ran("--recipe", "ds41f", "--shape", "tp3-triangle", "--site", ring) == 2
    err = capsys.readouterr().err
    assert err.count("error: ") == 1
    assert "the site is cabled otherwise" in err
    assert "hint: name a shape for a ring4, or --site fabric/examples/triangle.toml" in err


def test_a_planned_transport_renders_in_full_and_is_not_deployable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = copied(tmp_path / "project")
    changed(root, "recipes/ds41f.toml", 'tuning = "tp4"', 'tuning = "tp4"\ntransport = "rocenante-mesh4"')
    assert ran("--recipe", "ds41f", "--out", "launch", root=root) == 1
    assert "not deployable: planned: transport rocenante-mesh4: " in capsys.readouterr().err
    assert (tmp_path / "launch/spark1/run").exists()


def test_the_smallest_recipe_of_the_documentation_renders_and_no_line_of_it_can_be_spared(tmp_path: Path) -> None:
    root = copied(tmp_path / "project")
    page = (CHECKOUT / "docs/recipes.md").read_text()
    text = page.partition("## A new recipe")[2].partition("```toml\n")[2].partition("```")[0]
    (root / "recipes/hello.toml").write_text(text)
    assert ran("--recipe", "hello", root=root) == 0
    for line in text.splitlines():
        if line and not line.startswith(("[", "positional")):
            (root / "recipes/hello.toml").write_text(text.replace(f"{line}\n", ""))
            assert ran("--recipe", "hello", root=root) == 2, line


def test_one_nodes_files_alone_are_written_when_it_is_named(tmp_path: Path) -> None:
    assert ran("spark3", "--recipe", "probe", "--out", "launch") == 0
    assert [path.parent.name for path in tmp_path.glob("launch/*/run")] == ["spark3"]


def test_the_record_says_all_that_a_node_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("spark2", "--recipe", "probe", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["kind"], record["subject"]) == ("render", "probe:ring4")
    (node,) = record["body"]["nodes"]
    assert node["container"] == json.loads(rendered(PROBE).node("spark2")["container.json"])
    assert (record["body"]["deployable"], record["body"]["shape-bundle"]) == (True, str(rendered(PROBE).shape))


def test_the_sites_pick_is_the_shape_and_a_named_one_goes_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (CHECKOUT / "fabric/examples/triangle.toml").read_text()
    (tmp_path / "lab.toml").write_text(f'{text}\n[shapes]\nprobe = "triangle"\n')
    assert ran("--recipe", "probe", "--site", "lab.toml") == 0
    said = capsys.readouterr()
    assert "probe triangle\n" in said.out
    assert said.err == UNSEEN
    assert ran("--recipe", "probe", "--site", "lab.toml", "--shape", "ring4") == 2


def test_a_node_that_the_site_has_not_is_told_with_those_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("dgx9", "--recipe", "probe") == 2
    err = capsys.readouterr().err
    assert "fabric/examples/ring4.toml: nodes: no node is called 'dgx9'" in err
    assert "hint: there is spark1, spark2, spark3, spark4" in err


def test_faults_in_three_files_are_three_located_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = copied(tmp_path / "project")
    changed(root, "recipes/probe.toml", 'name = "probe"', 'name = "Probe!"')
    changed(root, "render/run.j2", "{{ reference | shell }}", "{{ reference }}")
    site = (CHECKOUT / "fabric/examples/ring4.toml").read_text()
    (tmp_path / "lab.toml").write_text(site.replace("192.0.2.12", "192.0.2.300"))
    assert ran("--recipe", "probe", "--site", "lab.toml", root=root) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in lines[:3]] == ["lab.toml", "recipes/probe.toml", "render/run.j2"]
    assert lines[3:] == ["error: 3 problems in the input"]


def test_an_image_that_is_not_derived_is_missing_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = copied(tmp_path / "project")
    for name in ("derivations", "patches", "kernels"):
        shutil.copytree(CHECKOUT / name, root / name)
    changed(root, "pyproject.toml", "format = 1\n", 'format = 1\nbuild-platform = "linux/amd64"\n')
    assert ran("--recipe", "probe", root=root, image=False) == 3
    err = capsys.readouterr().err
    assert "the image probe is not derived yet for linux/arm64" in err
    assert "run: derive image probe --platform linux/arm64" in err


@pytest.mark.parametrize("text", ["probe", "sha256:ab", "5a" * 32, ""])
def test_an_image_is_named_by_its_whole_digest(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        ran("--recipe", "probe", "--image", text, image=False)
    assert ended.value.code == 2
    assert "not the digest of an image" in capsys.readouterr().err


def test_why_names_the_rule_of_a_value_that_nobody_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran("--recipe", "ds41f", "--why", "long-prefill-token-threshold") == 0
    out = capsys.readouterr().out
    assert "8096" in out
    assert "max-num-batched-tokens - max-num-seqs x (1 + drafts)" in out
    assert ran("--recipe", "ds41f", "--why", "long-prefil-token-threshold") == 2
    assert "long-prefill-token-threshold" in capsys.readouterr().err


def test_a_shape_that_does_not_fit_is_marked_with_the_line_that_is_too_much_and_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = copied(tmp_path / "project")
    changed(root, "recipes/ds41f.toml", "kv-cache-memory-bytes = 11274289152", "kv-cache-memory-bytes = 1099511627776")
    assert ran("--recipe", "ds41f", "--out", "launch", root=root) == 1
    assert "does not fit: KV cache: a rank would take 1117.03 of 119.70 GiB\n" in capsys.readouterr().err
    manifest = json.loads((tmp_path / "launch/manifest.json").read_text())
    assert manifest["fits"] is False
    assert "KV cache" in manifest["unfit"]
    assert manifest["deployable"] is False


def test_a_model_that_nobody_has_pinned_is_rendered_and_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "no public source at hand says which revision it is"
    assert ran("--recipe", "ds41f", "--out", "launch") == 1
    said = capsys.readouterr()
    assert f"not deployable: the model is not pinned: {why}\n" in said.err
    assert said.err.count(why) == 1
    manifest = json.loads((tmp_path / "launch/manifest.json").read_text())
    assert (manifest["unpinned"], manifest["deployable"]) == (why, False)
    assert manifest["model"]["revision"] is None


def test_an_image_with_the_collectives_of_another_engine_is_rendered_and_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = copied(tmp_path / "project")
    more = '[capabilities]\noneshot-direct = { from = "ds41f-kernels", doc = "collectives" }\n'
    changed(root, "images/ds41f.toml", "[capabilities]\n", more)
    assert ran("--recipe", "ds41f", "--out", "launch", root=root) == 1
    because = "the image has oneshot-direct, which is for oneshot-direct, and the shape has nccl-ring"
    assert f"not deployable: {because}\n" in capsys.readouterr().err
    manifest = json.loads((tmp_path / "launch/manifest.json").read_text())
    assert manifest["clashes"] == [{"capability": "oneshot-direct", "because": because}]
