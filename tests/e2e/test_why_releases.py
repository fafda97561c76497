# SPDX-License-Identifier: Apache-2.0
"""Questions about releases: what moved between two, why, how many bytes, and files that follow from one alone."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import decode
from support.cli import Ran
from support.releasing import commit, released_project
from support.small import Small, run_here

PATCH = "patches/hello/0001-greet.patch"
PLATFORM = ("--platform", "linux/amd64")
RANDOM = "cat /proc/sys/kernel/random/uuid > $DERIVE_OUT/usr/share/hello/random"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Yield a project of three releases; no test changes it for good.

    ``r2`` has other content than ``r1``; ``r3`` the content of ``r2``, of which a step gave something else.
    """
    with released_project(tmp_path_factory.mktemp("releases")) as project:
        release(project, "r1", *PLATFORM)
        project.edit("derivations/small/build.sh", 'echo "hello is built"', RANDOM)
        project.edit(PATCH, "+hello, world", "+hello, you")
        project.edit("images/small.toml", 'mode = "0700"', 'mode = "0710"')
        project.edit("images/small.toml", "[config]", '[config]\nuser = "1"')
        project.edit("recipes/serve.toml", 'memory = "64MiB"', 'memory = "96MiB"')
        commit(project.root, "edits")
        release(project, "r2", *PLATFORM)
        forget(project, "hello")
        release(project, "r3", *PLATFORM)
        yield project


def release(project: Small, name: str, *arguments: str) -> None:
    """Make a release."""
    ran = project.here("release", name, "--recipe", "serve", "--by", "a tester", "--why", "a test", *arguments)
    assert ran.code == 0, ran.err


def forget(project: Small, step: str) -> None:
    """Let the store forget what one step gave: the next one to need it runs it again."""
    with sqlite3.connect(project.store / "derive.sqlite") as database:
        resolved = "SELECT resolved FROM derivations WHERE name = ?"
        database.execute(f"DELETE FROM realisations WHERE resolved IN ({resolved})", (step,))
        database.execute("DELETE FROM derivations")
        database.execute("DELETE FROM memos")
    database.close()


def body(ran: Ran) -> Any:
    """Return the body of the record that a command answered with."""
    document = decode(ran.out.encode())
    assert isinstance(document, dict)
    return document["body"]


def written(small: Small, name: str) -> Any:
    """Return a release's document."""
    return decode((small.root / "records" / "releases" / name / "release.json").read_bytes())


def test_each_thing_that_changed_is_one_line_with_the_bytes_that_it_moved(small: Small) -> None:
    ran = small.here("why", "release:r1", "release:r2")
    assert ran.code == 0, ran.err
    lines = ["".join(row.split()) for row in ran.answer.splitlines()]
    assert lines[0].startswith("-release:r1sha256:")
    told = [line for line in lines if "compressed" in line or "config" in line]
    assert [line.partition("compressed")[2] for line in told[:3]] == [
        "scriptofhello:+1-1linesshared;inhello",
        f"{PATCH}:greeting,hunk1,line1shared;inhello-patched",
        'modes.rules[0].mode:"0700"->"0710"(3steps)insmall',
    ]
    assert told[0].startswith("82B2paths")  # the greeting, and what is random
    assert told[3] == '-configconfig.user:""->"1"insmall'
    assert told[4].startswith("inall:82Bin2paths,")


def test_a_shape_says_which_key_and_which_image_moved_its_bundle(small: Small) -> None:
    (ring, triangle) = body(small.here("why", "release:r1", "release:r2", "--json"))["shapes"]
    assert (ring["shape"], triangle["shape"]) == ("ring", "triangle")
    assert ring["causes"][0].startswith("image linux/amd64: ")
    (key,) = ring["keys"]["moved"]
    assert (key["key"], key["before"], key["after"]) == ("memory", "67108864", "100663296")
    assert key["causes"][0]["after"]["key"] == "container.memory"
    assert ring["without_cause"] is False


def test_bytes_that_moved_without_a_cause_are_a_finding_with_path_and_derivation(small: Small) -> None:
    ran = small.here("why", "release:r2", "release:r3", "--json")
    assert ran.code == 1
    record = decode(ran.out.encode())
    assert isinstance(record, dict)
    found: Any = record["body"]
    (image,) = found["images"]
    assert image["moved"]["causes"] == image["moved"]["idle"] == []
    (one,) = image["moved"]["without_cause"]
    assert (one["step"], one["paths"], one["bytes"]) == ("hello (linux/amd64)", ["usr/share/hello/random"], 37)
    assert found["without_cause"] is True
    ran = small.here("why", "release:r2", "release:r3")
    assert ran.code == 1
    assert f"hello (linux/amd64), drv:{one['derivation'][7:19]}: 37 B in 1 path\n" in ran.out
    assert "    /usr/share/hello/random\n" in ran.out


def test_an_image_by_its_digest_beside_a_release_says_the_bytes_of_each_cause(small: Small) -> None:
    ran = small.here("why", "release:r1", written(small, "r3")["images"]["linux/amd64"]["digest"])
    assert ran.code == 0, ran.err
    assert "moved 82 B in 2 paths (by others, too); layer hello, " in ran.out


def test_the_working_tree_beside_a_release_is_what_it_would_be(small: Small) -> None:
    assert "the same images and shapes" in small.here("why", "release:r3", ".").answer
    same = small.here("diff", "release:r3", ".")
    assert (same.code, same.out.splitlines()[-1]) == (0, "the same")
    small.edit(PATCH, "+hello, you", "+hello, all")
    try:
        ran = small.here("why", "release:r3", ".")
        assert ran.code == 0, ran.err
        assert "not derived of . yet: which bytes move is not known" in ran.out
        assert f"{PATCH}: greeting, hunk 1, line 1  in hello-patched" in ran.out
        assert "release:r3" in small.here("why", ".", "release:r3").answer
    finally:
        small.edit(PATCH, "+hello, all", "+hello, you")


def test_a_diff_of_releases_has_documents_edits_images_and_shapes(small: Small) -> None:
    ran = small.here("diff", "r1", "r2")
    assert ran.code == 1
    for part in (
        "\ndocuments\n",
        "\n  image linux/amd64: sha256:",
        "\n  recipe serve: sha256:",
        "  derivations/small/build.sh changed\n",
        "  images/small.toml: config.user added 1\n",
        "  recipes/serve.toml: container.memory 64MiB -> 96MiB\n",
        "\nimage linux/amd64\n- small (linux/amd64), drv:",
        "  ~ /usr/share/hello/greeting  contents: ",
        "\nshapes\n  ring  ",
        "    ~ memory, every node  67108864 -> 100663296\n",
    ):
        assert part in ran.out
    found = body(small.here("diff", "release:r1", "release:r2", "--json"))
    assert found["edits"][0]["place"] == "derivations/small/build.sh"
    assert found["same"] is False


def test_a_release_stands_for_its_image_in_other_questions(small: Small) -> None:
    shown = small.here("show", "release:r3").answer
    assert shown.startswith("name            small\n")
    assert "small (linux/amd64)  image, drv:" in small.here("why", "release:r1").answer
    assert "hello-patched" in small.here("why", "hello-patched", "--in", "release:r1").answer
    assert "small (linux/amd64), derivation " in small.here("plan", "release:r1").answer
    assert small.here("sbom", "release:r3").code == 0


def test_a_name_that_means_an_image_and_a_release_lists_its_meanings(small: Small) -> None:
    image = small.root / "images" / "r1.toml"
    shutil.copy(small.root / "images" / "small.toml", image)
    try:
        ran = small.here("why", "r1", "r2")
    finally:
        image.unlink()
    assert ran.code == 2
    assert "'r1' has several meanings\n       may be    image:r1\n       may be    release:r1\n" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("why", "release:r9", "release:r1"), "no release is called 'r9'"),
        (("why", "release:r1@linux/arm64", "release:r2"), "has no image for linux/arm64"),
        (("why", "r1", "--in", "release:r2"), "is in nothing"),
        (("diff", "release:R1", "."), "names no release"),
    ],
)
def test_what_names_no_release_is_refused_with_a_next_step(small: Small, arguments: tuple[str, ...], said: str) -> None:
    ran = small.here(*arguments)
    assert ran.code in (1, 2)
    assert said in ran.err or "does not need" in ran.err


def test_without_the_stores_documents_todays_engine_evaluates_the_content_of_then(small: Small, tmp_path: Path) -> None:
    """In an empty store no tree is left: causes are told, and the bytes of layers that the release recorded."""
    ran = run_here(
        "why",
        "release:r1",
        "release:r2",
        "--project",
        str(small.root),
        env={**small.environment, "DERIVE_STORE": str(tmp_path / "empty")},
    )
    assert ran.code == 0, ran.err
    assert f"{PATCH}: greeting, hunk 1, line 1" in ran.out
    assert "compressed; a tree is not in the store: no file could be compared" in ran.out


def test_launch_files_follow_from_a_release_whatever_the_working_tree_says(small: Small) -> None:
    shapes = written(small, "r1")["shapes"]
    found = body(small.here("render", "--release", "r1", "--json"))
    assert (found["shape"], found["shape-bundle"]) == ("ring", shapes["ring"]["bundle"])
    found = body(small.here("render", "--release", "release:r1", "--shape", "triangle", "--json"))
    assert found["shape-bundle"] == shapes["triangle"]["bundle"]
    assert "container.memory = 64MiB" in small.here("render", "--release", "r1", "--why", "memory").answer
    ran = small.here("prove", found["nodes"][0]["node"], "--release", "r1", "--json")
    assert (ran.code, body(ran)["proof"]["same"]) == (0, True)
    assert small.here("render", "--release", "r1", "--shape", "x").code == 2
    assert small.here("render", "--release", "r1", "--image", f"sha256:{'5' * 64}").code == 2
    assert small.here("render", "--release", "r1", "--recipe", "other").code == 2


def test_a_renderer_that_gives_another_bundle_than_the_releases_is_refused(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine of later renders otherwise: its renderer has another version, which the bundle names."""
    monkeypatch.setattr("derive.render.bundle.RENDERER", "render/next")
    (small.store / "none").mkdir()  # what was rendered before is not asked
    for command in (("render", "--release", "r1"), ("prove", "spark1", "--release", "r1")):
        ran = small.here(*command, "--store", str(small.store / "none"))
        assert ran.code == 1
        assert "renders to another bundle with today's engine" in ran.err
        assert "expected  sha256:" in ran.err
    (small.store / "none").rmdir()


def test_releases_are_states_to_bisect_between(small: Small) -> None:
    judge = "! grep -q 'hello, you' $DERIVE_BISECT_PROJECT/patches/hello/0001-greet.patch"
    ran = run_here(
        *("bisect", "r1", "release:r2", "--project", str(small.root), "--", "sh", "-c", judge),
        env=small.environment,
    )
    assert ran.code == 0, ran.err
    assert ran.answer.splitlines()[1:] == [f"  {PATCH} changed"]
