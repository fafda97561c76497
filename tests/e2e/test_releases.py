# SPDX-License-Identifier: Apache-2.0
"""Releases from the command line: made, listed, checked, laid out again; killed, and two at once."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from derive.records.chain import DOCUMENTS, read_chain, verify
from derive.records.folder import files_below
from derive.releases import service
from derive.store.local import LocalStore
from support.chained import two_releases
from support.cli_driver import Driver
from support.releasing import RECIPE, commit, released_project
from support.small import Small

SAMPLES = 2  # kills of one sweep, which together with the runs after them take some seconds
WRITING = (-165, -60)
"""The changes to the disk, counted from the last, in which documents and record come to be; then the store's roots."""


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Return the project with a store that has its image."""
    with released_project(tmp_path_factory.mktemp("releases")) as small:
        for platform in ("linux/amd64", "linux/arm64"):
            assert small.here("image", "small", "--platform", platform).code == 0
        yield small


@pytest.fixture
def small(derived: Small, tmp_path: Path) -> Small:
    """Return a copy of that project with the same store."""
    root = tmp_path / "small"
    shutil.copytree(derived.root, root)
    return Small(root, derived.store, derived.server, derived.home)


def problems(root: Path) -> list[str]:
    files = files_below(root)
    return [one.message for one in verify(read_chain(files), files)]


def documents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in DOCUMENTS}


def test_a_release_is_written_listed_and_laid_out_again_to_the_same_documents(small: Small, tmp_path: Path) -> None:
    made = small.here("release", "one", "--recipe", "serve", "--why", "the first")
    assert made.code == 0, made.err
    assert "written: records/releases/0001-one.json" in made.err
    assert small.here("release", "one", "--recipe", "serve").out == made.out
    first = json.loads(small.here("records", "show", "one", "--json").answer)["body"]["records"][0]["body"]
    assert (first["release"], first["made_by"], first["why"], first["modified"]) == (
        made.answer,
        "tester",
        "the first",
        False,
    )
    assert small.here("releases").answer.startswith("nothing may be deployed")
    assert "one      serve   ring      candidate" in small.here("releases", "--all").answer
    commit(small.root, "the first release")

    small.edit("recipes/serve.toml", "port = 8080", "port = 8081")
    second = small.here("release", "two", "--recipe", "serve", "--waive", "ring=no ring", "--expires", "2099-01-31")
    assert second.code == 0, second.err
    assert "files differed from the commit" in second.err
    body = json.loads(small.here("records", "show", "two", "--json").answer)["body"]["records"][0]["body"]
    assert (body["previous_release"], body["modified"]) == ("one", True)
    assert [(one["kind"], one["shape"]) for one in body["evidence"]] == [("waiver", "ring")]
    assert "2099-01-31" in small.here("releases", "--all").answer
    assert small.here("records", "verify").answer.startswith("sound: 2 records, 2 releases, 2 commits")

    then, out = tmp_path / "then", tmp_path / "out"
    laid = small.here("records", "checkout", "one", "--output", str(then))
    assert laid.code == 0, laid.err
    again = small.derive(
        "release", "x", "--recipe", "serve", "--offline", "--write-to", str(out), "--project", str(then)
    )
    assert again.answer == made.answer
    assert documents(out) == documents(small.root / "records" / "releases" / "one")


def test_what_a_release_keeps_is_said_before_a_collection(small: Small) -> None:
    assert small.here("release", "kept", "--recipe", "serve").code == 0
    said = small.here("store", "gc", "--dry-run").answer
    assert "release kept@linux/amd64  yes" in said
    assert "release kept@content      yes" in said


def test_everything_wrong_with_the_question_is_said_and_nothing_is_written(small: Small) -> None:
    asked = ("--evidence", "records/none.json", "--waive", "circle=x", "--expires", "soon")
    ran = small.here("release", "one", "--recipe", "serve", *asked)
    assert ran.code == 2
    assert "records/none.json: cannot be read" in ran.err
    assert "--waive: names no shape: 'circle=x'" in ran.err
    assert small.here("release", "One", "--recipe", "serve").code == 2
    assert "shapes.ring" in small.here("release", "one", "--recipe", "serve", "--platform", "linux/arm64").err
    assert "no recipe is called 'sevre'" in small.here("release", "one", "--recipe", "sevre").err
    assert not (small.root / "records").exists()


def test_a_name_that_another_release_has_is_refused_before_anything_is_built(small: Small, tmp_path: Path) -> None:
    assert small.here("release", "one", "--recipe", "serve").code == 0
    small.edit("recipes/serve.toml", "port = 8080", "port = 8081")
    bare = Small(small.root, tmp_path / "bare", small.server, small.home)
    for more in ((), ("--dry-run",)):
        ran = bare.here("release", "one", "--recipe", "serve", *more)
        assert ran.code == 2
        assert "0001-one.json: the name 'one' is taken, and this is another release" in ran.err
        assert "differs   recipes: serve" in ran.err
    assert not bare.store.exists()


def test_a_release_under_a_second_name_is_refused_and_a_dry_run_says_so_without_building(
    small: Small, tmp_path: Path
) -> None:
    assert small.here("release", "one", "--recipe", "serve").code == 0
    bare = Small(small.root, tmp_path / "bare", small.server, small.home)
    dry = bare.here("release", "two", "--recipe", "serve", "--dry-run")
    assert not bare.store.exists()
    for ran in (dry, small.here("release", "two", "--recipe", "serve")):
        assert ran.code == 2
        assert "0001-one.json: this release is 'one' already" in ran.err


def test_where_the_store_is_full_after_the_record_was_written_that_is_said_and_again_ends_it(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(store: LocalStore, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(store.root / "tmp" / "staged"))

    with monkeypatch.context() as patched:
        patched.setattr(service, "keep_release", full)
        ran = small.here("release", "one", "--recipe", "serve")
    assert (ran.code, ran.out) == (3, "")
    assert "0001-one.json is written, and there is no space in the store to keep what it names" in ran.err
    assert "run the same command again: it ends the work" in ran.err
    again = small.here("release", "one", "--recipe", "serve")
    assert again.code == 0, again.err
    assert "release one@content" in small.here("store", "gc", "--dry-run").answer


def test_what_was_not_derived_into_a_store_is_called_what_was_typed(small: Small, tmp_path: Path) -> None:
    assert small.here("release", "one", "--recipe", "serve").code == 0
    bare = Small(small.root, tmp_path / "bare", small.server, small.home)
    for command in ("sbom", "provenance"):
        ran = bare.here(command, "release:one")
        assert ran.code == 3
        assert "the image of release:one was not derived into this store" in ran.err
        assert "derive records checkout one --output then" in ran.err


def test_an_edited_record_is_named_and_the_exit_code_is_1(small: Small) -> None:
    assert small.here("release", "one", "--recipe", "serve").code == 0
    head = small.here("records", "verify").answer.split()[-1]
    commit(small.root, "a release")
    file = small.root / "records" / "releases" / "0001-one.json"
    file.write_bytes(file.read_bytes().replace(b'"tester"', b'"taster"'))
    ran = small.here("records", "verify")
    assert (ran.code, "0001-one.json: other than commit" in ran.out) == (1, True)
    ran = small.here("records", "verify", "--head", head, "--json")
    assert [one["message"].partition(":")[0] for one in json.loads(ran.out)["body"]["problems"]] == [
        "other than commit " + ran.out.split("other than commit ")[1][:12] + " has it",
        "not the head that was noted",
    ]
    assert small.here("records", "verify", "--since", "nowhere").code == 2


def test_records_are_added_about_experiments_what_runs_and_what_is_retired(small: Small) -> None:
    digest = small.here("release", "one", "--recipe", "serve").answer
    said = ("--hypothesis", "h", "--variable", "v", "--acceptance", "a", "--rollback", "r")
    added = [
        small.here("records", "add", "experiment", "wider", "--base", digest, *said),
        small.here("records", "add", "observed", "lab", "--node", f"spark1={digest}"),
        small.here("records", "add", "retired", "one", "--shape", "ring", "--why", "a node hung"),
    ]
    assert [one.answer.rpartition("/")[2] for one in added] == [
        "0002-wider-experiment.json",
        "0003-lab-observed.json",
        "0004-one-ring-retired.json",
    ]
    assert "retired" in small.here("releases", "--all", "--shape", "ring").answer
    assert problems(small.root) == []
    for wrong in (
        ("experiment", "x", "--base", "one"),
        ("observed", "lab"),
        ("observed", "lab", "--node", "a=b"),
        ("retired", "two", "--why", "x"),
        ("retired", "one", "--shape", "circle", "--why", "x"),
        ("retired", "one"),
    ):
        assert small.here("records", "add", *wrong).code == 2, wrong


def test_after_a_merge_two_records_of_one_number_are_named_and_put_in_order(small: Small) -> None:
    ours, theirs = two_releases(), two_releases()
    ours.retire("demo-2")
    name = theirs.add("observed", "lab", {"nodes": {}, "observed_s": 1}).removesuffix(".json")
    for one in (ours, theirs):
        one.write(small.root)
    found = small.here("records", "verify")
    assert (found.code, f"derive records renumber {name}" in found.out) == (1, True)
    assert small.here("records", "renumber", name).answer == "records/releases/0006-lab.json"
    assert small.here("records", "verify").code == 0
    assert "observed" in small.here("records", "show", "0006").answer


def job(small: Small, name: str, recipe: str = "serve", **options: object) -> dict[str, Any]:
    """Return a run of ``derive release`` for the driver."""
    argv = ["release", name, "--recipe", recipe]
    return {"argv": argv, "env": small.environment, "cwd": str(small.root), **options}


def test_killed_at_any_change_to_the_disk_and_run_again_a_release_is_whole(small: Small) -> None:
    records = small.root / "records"
    with Driver() as driver:
        (whole,) = driver.run(job(small, "one", count=True))
        assert whole["code"] == 0, whole["err"]
        chosen = random.sample(range(*WRITING), SAMPLES)
        for fatal in (whole["steps"] + one for one in chosen):
            shutil.rmtree(records)
            (killed,) = driver.run(job(small, "one", fatal=fatal))
            assert killed["killed"] is not None or killed["code"] == 0, killed["err"]
            assert set(problems(small.root)) <= {"no record names this file"}, f"after {fatal} of {whole['steps']}"
            (again,) = driver.run(job(small, "one"))
            assert (again["code"], again["out"]) == (0, whole["out"]), again["err"]
            assert problems(small.root) == []
            assert not list(records.rglob("*.partial"))


def test_of_three_at_once_two_releases_get_a_number_each_and_one_that_is_the_same_gets_none(small: Small) -> None:
    small.write("recipes/other.toml", RECIPE.replace("port = 8080", "port = 8081"))
    with Driver() as driver:
        first, other, same = driver.run(job(small, "one"), job(small, "two", "other"), job(small, "three"))
    assert other["code"] == 0, other["err"]
    assert sorted((first["code"], same["code"])) == [0, 2]
    assert "already" in first["err"] + same["err"]
    assert sorted(path.name[:5] for path in (small.root / "records" / "releases").glob("*.json")) == ["0001-", "0002-"]
    assert [one for one in problems(small.root) if "no record names" not in one] == []
