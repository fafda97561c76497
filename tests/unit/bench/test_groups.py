# SPDX-License-Identifier: Apache-2.0
"""What the measurements do, on a small scale: the figures need the real scale, the work does not."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from derive.derivations.evaluate import Evaluator
from derive.derivations.model import Derivation, closure
from derive.derivations.scope import load_scope
from derive.store.local import LocalStore
from derive.trees.materialise import materialise
from derive.trees.pack import add_members
from speed.content import NAME, project_of
from speed.hashing import folder_digest, plain, store_digest
from speed.image import change_a_patch
from speed.layers import root_layer
from speed.machine import facts_of
from speed.measure import CannotMeasureError
from speed.memory import run as run_memory
from speed.nix import Nix, find_nix
from speed.planning import derivations, fill, plan
from speed.scratch import Bench, cold_store, remember
from speed.table import AtMost, Size
from support.folders import ODD, members_of
from support.require import skip_or_fail

RUN = Path(__file__).parents[3] / "bench" / "engine" / "run.py"


def root_of(archives: int) -> Derivation:
    return Evaluator(load_scope(project_of(archives))).derivation(NAME, "linux/amd64")


@pytest.mark.parametrize("archives", [1, 7])
def test_a_made_up_project_has_a_fetch_and_an_unpacking_for_each_archive(archives: int) -> None:
    order = closure(root_of(archives))
    assert len(order) == derivations(archives)
    assert {one.builder for one in order} == {"fetch-deb", "unpack", "debian-root"}


def test_a_filled_store_leaves_nothing_to_do(tmp_path: Path) -> None:
    project = project_of(5)
    fill(project, tmp_path)
    assert plan(project, tmp_path, whole=False) == 1
    assert plan(project, tmp_path, whole=True) == 11


def test_planning_against_a_store_that_knows_less_is_no_measurement(tmp_path: Path) -> None:
    fill(project_of(4), tmp_path)
    with pytest.raises(AssertionError, match="work to do"):
        plan(project_of(5), tmp_path, whole=False)


def test_a_folder_and_the_store_give_one_tree_digest(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store") as store:
        listing = add_members(store, members_of(ODD))
        digest = store.add_listing(listing)
        materialise(store, listing, tmp_path / "tree")
    assert folder_digest(tmp_path / "tree") == str(digest)
    assert store_digest(tmp_path / "store", digest) == str(digest)


def test_the_yardstick_reads_every_file_and_no_link(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "in/b"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("a")
    assert plain(tmp_path) == 2


def test_a_cold_store_holds_the_fetches_of_a_closure_and_nothing_else(tmp_path: Path) -> None:
    target = root_of(2)
    fetches = [one for one in closure(target) if one.fixed is not None]
    setting = setting_in(tmp_path, target)
    with LocalStore(setting.store) as store:
        for name in ("p0", "p1"):
            with store.blob_writer() as writer:
                writer.write(name.encode())
                writer.commit()
        with store.blob_writer() as writer:
            writer.write(b"something else")
            writer.commit()
        remember(store, [(one, {}, one.fixed) for one in fetches if one.fixed is not None])
    path = cold_store(setting)
    blobs = sorted(blob.name for blob in (path / "blobs" / "sha256").iterdir())
    assert blobs == sorted(hashlib.sha256(name).hexdigest() for name in (b"p0", b"p1"))
    with LocalStore(path) as cold:
        assert cold.database.resolved_ids(one.id for one in closure(target)).keys() == {one.id for one in fetches}


def setting_in(folder: Path, target: Derivation) -> Bench:
    scratch = folder / "scratch"
    scratch.mkdir()
    return Bench(root=folder, store=folder / "store", name="many", target=target, scratch=scratch, jobs=1, rounds=1)


def test_the_layer_to_measure_is_that_of_a_debian_root() -> None:
    image = Evaluator(load_scope(project_of(3))).image("many", None)
    layer, root = root_layer(image)
    assert (layer.builder, root.builder) == ("layer", "debian-root")
    with pytest.raises(AssertionError, match="no layer"):
        root_layer(root)


def test_large_and_many_files_go_through_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speed.memory.LARGE_BYTES", 3 << 20)
    monkeypatch.setattr("speed.memory.FILES", 300)
    # What is measured is a fork of this process, and begins with all that the tests before have left in its memory.
    monkeypatch.setattr("speed.memory.LIMIT", AtMost(Size(1 << 40)))
    notes: list[str] = []
    rows = run_memory(setting_in(tmp_path, root_of(1)), notes.append)
    assert [row.missed for row in rows] == [False] * 3
    assert notes == []


def test_each_turn_changes_what_one_added_line_prints(tmp_path: Path) -> None:
    (tmp_path / "patches" / "one").mkdir(parents=True)
    patch = tmp_path / "patches" / "one" / "0001-a.patch"
    patch.write_text('+int x;\n \tprintf("kept");\n+\tprintf(" said\\n");\n+\tprintf("also");\n')
    change_a_patch(tmp_path, 0)
    change_a_patch(tmp_path, 1)
    assert patch.read_text() == '+int x;\n \tprintf("kept");\n+\tprintf("10 said\\n");\n+\tprintf("also");\n'


def test_a_project_without_such_a_patch_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(CannotMeasureError, match="no patch"):
        change_a_patch(tmp_path, 0)


def test_nix_builds_instantiates_and_hashes_in_a_store_of_its_own(tmp_path: Path) -> None:
    nix = find_nix(tmp_path / "nix")
    if not isinstance(nix, Nix):
        skip_or_fail(f"nix: {nix}")
    nix.instantiate(3)
    nix.hash(tmp_path)
    assert (tmp_path / "nix" / "store" / "nix" / "store").is_dir()


def test_the_machine_is_described_in_words(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    assert {"processor", "memory", "kernel", "store on", "python", "derive"} <= facts.keys()
    assert all(facts.values())


def test_the_program_names_its_groups_and_needs_a_project(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, RUN, "--help"], capture_output=True, text=True, check=True)
    groups = {"startup", "planning", "why", "patches", "hashing", "layers", "memory", "image", "launching"}
    assert groups <= set(done.stdout.replace(",", " ").split())
    done = subprocess.run([sys.executable, RUN], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no project here" in done.stderr
    assert done.stdout == ""
