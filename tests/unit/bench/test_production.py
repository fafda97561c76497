# SPDX-License-Identifier: Apache-2.0
"""What the measurements beside BuildKit and of the production image do, on a small scale."""

from __future__ import annotations

import json
import shutil
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from derive.build.plan import Action
from derive.build.service import evaluate, plan_for
from derive.derivations.evaluate import Evaluator
from derive.derivations.model import TreeOutput, closure
from derive.derivations.scope import Scope, load_scope
from derive.project import load_project
from derive.store.local import LocalStore
from derive.trees.pack import add_members
from speed import buildkit
from speed.buildkit import exported
from speed.content import NAME as MADE_UP
from speed.content import project_of
from speed.measure import CannotMeasureError, Sample, Samples
from speed.production import change_a_line, leave_out_a_wheel, moved_layers
from speed.production import run as run_production
from speed.scratch import Bench, carry, linked_copy, remember
from speed.some_wheels import NAME, some_wheels
from speed.table import AtLeast, Count, Factor, Row, document, misses, show
from speed.why import write
from support.folders import ODD, members_of

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def scope() -> Scope:
    return load_scope(load_project(ROOT))


def samples(*seconds: float) -> Samples:
    return Samples(tuple(Sample(wall_ns=round(one * 1e9), cpu_ns=1, peak_bytes=1 << 20) for one in seconds))


def test_a_project_of_some_wheels_has_the_steps_that_these_have_in_the_image(scope: Scope, tmp_path: Path) -> None:
    write(some_wheels(scope, "ds41f", "ds41f-wheels", {"numpy", "sympy"}), tmp_path / "project")
    found = evaluate(load_project(tmp_path / "project"), f"image:{NAME}", None)
    whole = Evaluator(scope).image("ds41f", None)
    assert found.host == whole.host
    recorded = {one for one in closure(found) if one.name.endswith(" recorded")}
    assert len(recorded) == 2
    assert {one.id for one in recorded} < {one.id for one in closure(whole)}
    layers = [reference.derivation for role, reference in found.inputs.items() if role.startswith("blob.")]
    assert any(role.startswith("archive.") for layer in layers for role in layer.inputs)


def test_a_copied_store_knows_what_the_first_one_does_and_is_its_own(tmp_path: Path) -> None:
    target = Evaluator(load_scope(project_of(2))).derivation(MADE_UP, "linux/amd64")
    with LocalStore(tmp_path / "first") as store:
        tree = store.add_listing(add_members(store, members_of(ODD)))
        made = [one for one in closure(target) if one.fixed is None and one is not target]
        for one in made:
            inputs = {role: given.derivation.fixed for role, given in one.inputs.items() if given.derivation.fixed}
            remember(store, [(one, dict(inputs), TreeOutput(tree))])
    linked_copy(tmp_path / "first", tmp_path / "second")
    with LocalStore(tmp_path / "second") as copy, LocalStore(tmp_path / "third") as third:
        assert plan_for(made[0], copy, None).is_done
        assert copy.has_tree(tree)
        carry(copy, third, made[:1])
        assert plan_for(made[0], third, None).is_done
        assert [step.action for step in plan_for(made[1], third, None).steps] == [Action.FETCH, Action.BUILD]
        copy.tag("only-here", tree, 1, "text/plain")
    assert "only-here" not in (tmp_path / "first" / "index.json").read_text()


def test_what_is_not_in_a_store_cannot_be_carried(tmp_path: Path) -> None:
    target = Evaluator(load_scope(project_of(1))).derivation(MADE_UP, "linux/amd64")
    with (
        LocalStore(tmp_path / "one") as empty,
        LocalStore(tmp_path / "other") as other,
        pytest.raises(CannotMeasureError, match="not in the store"),
    ):
        carry(empty, other, [target])


def test_a_changed_line_is_another_one_each_turn_and_still_the_same_patch(scope: Scope, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "patches", tmp_path / "patches")
    seen = {scope.series["vllm"].patches}
    for turn in range(3):
        change_a_line(tmp_path, turn)
        files = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*.*")}
        files = {path: data for path, data in files.items() if path.startswith("patches/")}
        project = replace(scope.project, files={**scope.project.files, **files})
        seen.add(load_scope(project).series["vllm"].patches)
    assert len(seen) == 4
    changed = [path for path in (tmp_path / "patches").rglob("*.patch") if b"# measured" in path.read_bytes()]
    assert [path.read_bytes().count(b"# measured 2") for path in changed] == [1]


def test_a_series_that_adds_no_line_to_a_python_file_cannot_be_measured(tmp_path: Path) -> None:
    folder = tmp_path / "patches" / "vllm"
    folder.mkdir(parents=True)
    (folder / "0001-text.patch").write_text("--- a/t.txt\n+++ b/t.txt\n@@ -1 +1 @@\n-a\n+b\n--- a/t.py\n+++ b/t.py\n")
    with pytest.raises(CannotMeasureError, match="no patch of vllm"):
        change_a_line(tmp_path, 0)


def test_one_wheel_is_left_out_and_no_other_one_changes(scope: Scope, tmp_path: Path) -> None:
    file = scope.declared["ds41f-wheels"].file
    (tmp_path / file).parent.mkdir()
    shutil.copy(ROOT / file, tmp_path / file)
    name = leave_out_a_wheel(tmp_path, scope)
    files = {**scope.project.files, file: (tmp_path / file).read_bytes()}
    without = Evaluator(load_scope(replace(scope.project, files=files))).image("ds41f", None)
    kept = {one.id for one in closure(without)}
    gone = {one.name for one in closure(Evaluator(scope).image("ds41f", None)) if one.id not in kept}
    (recorded,) = (one for one in gone if one.endswith(" recorded"))
    assert recorded.startswith(f"{name} ")


def test_layers_to_pull_are_those_that_the_old_image_lacks() -> None:
    assert moved_layers({"a": 1, "b": 2}, {"b": 2, "c": 3}) == {"c": 3}


def test_the_digest_of_an_exported_archive_is_its_manifests(tmp_path: Path) -> None:
    data = json.dumps({"manifests": [{"digest": "sha256:12"}]}).encode()
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        member = tarfile.TarInfo("index.json")
        member.size = len(data)
        tar.addfile(member, BytesIO(data))
    assert exported(tmp_path / "a.tar") == "sha256:12"


def test_every_ratio_is_followed_by_its_bound_and_the_bound_has_the_target() -> None:
    cold = {"given": samples(1, 1.1), "made": samples(3, 3), "gzip": samples(40, 44), "zstd": samples(20, 19)}
    unchanged = {"given": samples(0.1, 0.1), "made": samples(0.1, 0.1), "gzip": samples(9, 9), "zstd": samples(3, 3)}
    found = buildkit.rows(cold, unchanged)
    ratios = [index for index, row in enumerate(found) if row.ratio is not None]
    assert len(ratios) == 6
    for index in ratios:
        bound, ratio = found[index + 1], found[index].ratio
        assert ratio is not None
        assert isinstance(bound.amount, Factor)
        assert bound.amount.value <= ratio.value + 0.001
        assert bound.target == AtLeast(Factor(10))
    assert show(found[ratios[0] + 1].amount) == "40.0"
    assert [row.missed for row in found[ratios[0] :]].count(True) == 1


def test_a_store_without_the_image_and_a_machine_without_an_engine_are_told_in_a_line(
    scope: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DERIVE_TEST_DOCKER", str(tmp_path / "none"))
    target = Evaluator(scope).image("probe", None)
    setting = Bench(
        root=ROOT, store=tmp_path / "store", name="probe", target=target, scratch=tmp_path, jobs=1, rounds=1
    )
    notes: list[str] = []
    assert run_production(setting, notes.append) == []
    assert buildkit.run(setting, notes.append) == []
    assert [note.partition(": not measured: ")[0] for note in notes] == ["production", "buildkit"]
    assert not any("\n" in note for note in notes)


def test_a_count_is_shown_and_recorded_as_a_whole_number() -> None:
    assert show(Count(12)) == "12"
    assert misses(AtLeast(Count(3)), Count(2))
    (found,) = document([Row(group="g", what="w", amount=Count(3))])
    assert found == {"group": "g", "what": "w", "count": 3}
