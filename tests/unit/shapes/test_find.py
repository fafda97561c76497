# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import InputErrors, Missing
from derive.operands import Launching, Working
from derive.render.folder import write_folder
from derive.render.inputs import Chosen, Inputs
from derive.render.service import render
from derive.shapes.compare import causes
from derive.shapes.find import Places, compare_launching
from derive.shapes.lines import shape_body, shape_lines
from derive.shapes.model import Moved, ShapeComparison
from derive.why.render import render as as_text

ROOT = Path(__file__).parents[3]
IMAGE = sha256(b"an image")


def not_derived(_: Inputs) -> Digest:
    raise Missing("not derived")


def places(site: str | None = None) -> Places:
    return Places(
        root=lambda: ROOT, usual=lambda: "ds41f", environ={"HOME": "/nonexistent"}, image=not_derived, site=site
    )


def compared(first: Launching | Working, second: Launching | Working, site: str | None = None) -> ShapeComparison:
    return compare_launching(first, second, places(site))


def row(found: ShapeComparison, key: str) -> Moved:
    (one,) = [one for one in found.moved if one.key == key]
    return one


def texts(one: Moved) -> tuple[str | None, str | None]:
    before, after = (None if value is None else value.text for value in (one.before, one.after))
    return before, after


def reasons(found: ShapeComparison, key: str) -> list[tuple[str, str]]:
    return [(one.place if one else "", other.place if other else "") for one, other in causes(row(found, key))]


@pytest.fixture(scope="module")
def shapes() -> ShapeComparison:
    return compared(Launching("shape", "tp4-ring"), Launching("shape", "tp3-triangle", "ds41f"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = render(ROOT, Chosen(recipe="probe"), {"HOME": "/nonexistent"}, lambda _: IMAGE, "probe")
    path = tmp_path_factory.mktemp("rendered") / "launch"
    write_folder(found.bundle.files, path)
    return path


def test_two_shapes_differ_in_arguments_variables_and_nodes(shapes: ShapeComparison) -> None:
    assert texts(row(shapes, "--max-num-seqs")) == ("16", "8")
    assert texts(row(shapes, "NCCL_BUFFSIZE")) == ("4194304", "1048576")
    assert [(one.what, one.side) for one in shapes.alone] == [("rank 3", "before")]
    assert not shapes.same


def test_what_all_nodes_are_told_alike_is_one_row_and_the_rest_names_its_ranks(shapes: ShapeComparison) -> None:
    assert row(shapes, "--tensor-parallel-size").nodes == ()
    assert row(shapes, "NCCL_IB_HCA").nodes == (2,)


def test_a_typed_value_is_caused_by_its_keys(shapes: ShapeComparison) -> None:
    key = "arguments.max-num-seqs"
    file = "recipes/ds41f.toml: shapes"
    assert reasons(shapes, "--max-num-seqs") == [(f"{file}.tp4-ring.{key}", f"{file}.tp3-triangle.{key}")]


def test_a_derived_value_is_caused_by_what_its_rule_read_otherwise(shapes: ShapeComparison) -> None:
    text = as_text(shape_lines(shapes, why=True), colour=False)
    budget = "arguments.max-num-batched-tokens = 8192 -> 4096"
    assert f"    rule long-prefill: {budget}; arguments.max-num-seqs = 16 -> 8\n" in text
    assert "~ NCCL_BUFFSIZE, every node  4194304 -> 1048576\n    rule tuning: tuning = tp4 -> tp3\n" in text


def test_the_record_has_what_the_text_has(shapes: ShapeComparison) -> None:
    body = json.loads(json.dumps(shape_body(shapes, why=True)))
    (one,) = [one for one in body["moved"] if one["key"] == "--nnodes"]
    assert (one["before"], one["after"], one["nodes"]) == ("4", "3", None)
    assert one["causes"][0]["before"]["read"] == ["cabling = ring4"]


def test_a_shape_beside_itself_is_the_same() -> None:
    shape = Launching("shape", "tp4-ring")
    assert compared(shape, shape).same


def test_a_shape_of_two_recipes_must_be_said_with_its_recipe(tmp_path: Path) -> None:
    for name in ("recipes", "fabric", "images", "lock", "render"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(tmp_path / "recipes" / "probe.toml", tmp_path / "recipes" / "other.toml")
    found = Places(root=lambda: tmp_path, usual=lambda: "probe", environ={}, image=not_derived)
    with pytest.raises(InputErrors) as refused:
        compare_launching(Launching("shape", "ring4"), Launching("shape", "triangle", "probe"), found)
    (problem,) = refused.value.problems()
    assert problem.detail == ("may be    shape:other/ring4", "may be    shape:probe/ring4")


def test_another_file_of_a_recipe_is_compared_shape_by_shape_with_the_working_tree(tmp_path: Path) -> None:
    file = tmp_path / "ds41f.toml"
    text = (ROOT / "recipes" / "ds41f.toml").read_text()
    text = text.replace("max-num-seqs = 16", "max-num-seqs = 12").replace('memory = "112GiB"', 'memory = "111GiB"')
    file.write_text(text)
    found = compared(Launching("recipe", str(file)), Working())
    assert {(one.shape, one.key) for one in found.moved} >= {("tp4-ring", "--max-num-seqs"), ("tp3-triangle", "memory")}
    assert ("tp3-triangle", "--max-num-seqs") not in {(one.shape, one.key) for one in found.moved}
    assert not found.alone


def test_another_checkpoint_is_caused_by_the_recipes_key_and_the_locks_entry(tmp_path: Path) -> None:
    file = tmp_path / "ds41f.toml"
    text = (ROOT / "recipes" / "ds41f.toml").read_text()
    file.write_text(text.replace('huggingface = "deepseek-v4-1-flash-1017"', 'huggingface = "deepseek-v4-1-flash"'))
    found = compared(Launching("recipe", str(file)), Working())
    (one,) = [one for one in found.moved if (one.shape, one.key) == ("tp4-ring", "word 1")]
    assert [(old.place, new.place) for old, new in causes(one) if old and new] == [
        ("recipes/ds41f.toml: model.huggingface", "recipes/ds41f.toml: model.huggingface"),
        ("lock/model.lock.json: deepseek-v4-1-flash", "lock/model.lock.json: deepseek-v4-1-flash-1017"),
    ]


def test_two_sites_differ_in_their_keys_and_in_what_follows_from_them(tmp_path: Path) -> None:
    text = (ROOT / "fabric" / "examples" / "ring4.toml").read_text()
    files = [tmp_path / "a.toml", tmp_path / "b.toml"]
    files[0].write_text(text)
    files[1].write_text(text.replace("192.0.2.13", "192.0.2.33").replace('home = "/home/operator"', 'home = "/srv"'))
    found = compared(Launching("site", str(files[0])), Launching("site", str(files[1])))
    assert texts(row(found, "nodes[2].address")) == ("192.0.2.13", "192.0.2.33")
    assert (row(found, "VLLM_HOST_IP").nodes, texts(row(found, "VLLM_HOST_IP"))) == ((2,), ("192.0.2.13", "192.0.2.33"))
    assert reasons(found, "VLLM_HOST_IP") == [(f"{files[0]}: nodes[2].address", f"{files[1]}: nodes[2].address")]
    assert reasons(found, "/model") == [(f"{files[0]}: models", f"{files[1]}: models")]
    assert row(found, "container.json").nodes == ()


def test_examples_stand_for_sites_by_their_cabling() -> None:
    found = compared(Launching("site", "ring4"), Launching("site", "triangle"))
    assert texts(row(found, "cables[3]")) == ("spark3 spark4", None)


def test_a_rendered_folder_is_what_the_working_tree_renders(folder: Path) -> None:
    found = compared(Launching("bundle", str(folder)), Working())
    assert found.same
    assert found.notes == ("the image probe is not derived here: the folder's is taken for it",)


def test_a_site_that_moved_is_found_though_no_node_is_told_otherwise(folder: Path, tmp_path: Path) -> None:
    text = (ROOT / "fabric" / "examples" / "ring4.toml").read_text()
    site = tmp_path / "site.toml"
    site.write_text(text.replace('home = "/home/operator"', 'home = "/srv"'))
    found = compared(Launching("bundle", str(folder)), Working(), str(site))
    assert not found.same
    assert [(one.section, one.key) for one in found.moved] == [("site", "digest"), ("site", "example")]
    assert reasons(found, "digest") == [("", str(site))]


def test_an_input_that_the_manifest_names_is_found_when_it_moved(folder: Path, tmp_path: Path) -> None:
    changed = tmp_path / "launch"
    shutil.copytree(folder, changed)
    document = json.loads((changed / "manifest.json").read_text())
    document["image"], document["shape-bundle"] = str(sha256(b"another")), str(sha256(b"this"))
    document["needs"] = [{"capability": "rdma", "because": "x"}]
    (changed / "manifest.json").write_text(json.dumps(document))
    found = compared(Launching("bundle", str(folder)), Launching("bundle", str(changed)))
    assert {(one.section, one.key) for one in found.moved} == {
        ("shape", "image"),
        ("shape", "shape-bundle"),
        ("shape", "needs"),
    }
    assert not compared(Launching("bundle", str(changed)), Working()).same


def test_shapes_of_other_names_are_compared_where_both_are_for_one_cabling() -> None:
    found = compared(Launching("recipe", "ds41f"), Launching("recipe", "probe"))
    assert [(one.shape, one.side) for one in found.alone] == [("tp3-triangle-4k", "before")]
    assert {one.shape for one in found.moved} == {"tp4-ring -> ring4", "tp3-triangle -> triangle"}
    sections = {one.section for one in found.moved if one.shape == "tp4-ring -> ring4"}
    assert {"service", "arguments", "environment", "mounts"} <= sections


def test_a_folder_of_one_node_is_compared_with_that_node(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "one", ignore=shutil.ignore_patterns("spark[134]"))
    assert compared(Launching("bundle", str(tmp_path / "one")), Working()).same


def test_a_file_of_a_rendered_folder_that_was_changed_is_found_with_its_cause(folder: Path, tmp_path: Path) -> None:
    changed = tmp_path / "launch"
    shutil.copytree(folder, changed)
    document = json.loads((changed / "spark2" / "container.json").read_text())
    document["environment"]["EXTRA"] = ""
    document["ready"]["timeout-seconds"] = 1
    (changed / "spark2" / "container.json").write_text(json.dumps(document))
    found = compared(Launching("bundle", str(changed)), Working())
    assert [(one.section, one.key, one.nodes) for one in found.moved] == [
        ("service", "ready timeout", (1,)),
        ("environment", "EXTRA", (1,)),
        ("files", "container.json", (1,)),
    ]
    assert reasons(found, "ready timeout") == [("", "recipes/probe.toml: service.ready.timeout")]
    text = as_text(shape_lines(found, why=True), colour=False)
    assert '- EXTRA, rank 1  ""\n    not known: a rendered folder says what, not why' in text


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Launching("shape", "tp4-ring"), Launching("recipe", "ds41f")),
        (Launching("shape", "tp4-ring"), Working()),
        (Launching("shape", "none"), Launching("shape", "tp4-ring")),
        (Launching("recipe", "none"), Working()),
        (Launching("recipe", "/nonexistent/x.toml"), Working()),
        (Launching("site", "/nonexistent/x.toml"), Launching("site", "ring4")),
        (Launching("site", "ring4"), Working()),
        (Launching("bundle", "/nonexistent"), Working()),
        (Working(), Working()),
    ],
)
def test_what_cannot_be_compared_is_refused_with_a_next_step(
    first: Launching | Working, second: Launching | Working
) -> None:
    with pytest.raises(InputErrors) as refused:
        compared(first, second)
    assert all(one.hint or one.where for one in refused.value.problems())
