# SPDX-License-Identifier: Apache-2.0
"""The edit loop: an image with work trees laid over it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.store.local import LocalStore
from support.small import Small, small_project


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as found:
        yield found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "work tree"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text("no part of it")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_text("no part of it")
    (folder / "greeting").write_text("edited\n")
    return folder


def labels(small: Small, digest: str) -> dict[str, str]:
    with LocalStore(small.store) as store:
        manifest = json.loads(b"".join(store.read_blob(Digest.parse(digest))))
        config = json.loads(b"".join(store.read_blob(Digest.parse(manifest["config"]["digest"]))))
    found: dict[str, str] = config["config"]["Labels"]
    return found


def layers(small: Small, digest: str) -> list[str]:
    with LocalStore(small.store) as store:
        manifest = json.loads(b"".join(store.read_blob(Digest.parse(digest))))
    return [layer["digest"] for layer in manifest["layers"]]


def test_an_overlay_is_one_more_layer_over_the_image_s_own(small: Small, tree: Path) -> None:
    image = small.here("image").answer
    overlaid = small.here("dev", "--overlay", f"{tree}:/usr/share/hello").answer
    assert layers(small, overlaid)[:-1] == layers(small, image)
    assert small.here("image").answer == image


def test_an_overlaid_image_says_so_in_a_label_and_an_image_may_not_say_so_itself(small: Small, tree: Path) -> None:
    overlaid = small.here("dev", "--overlay", f"{tree}:/usr/share/hello").answer
    assert labels(small, overlaid)["io.derive.overlay"].startswith("/usr/share/hello=sha256:")
    assert "io.derive.overlay" not in labels(small, small.here("image").answer)
    small.edit("images/small.toml", "[config]", '[config]\nlabels = { "io.derive.overlay" = "x" }')
    refused = small.here("image")
    assert refused.code == 2
    assert "images/small.toml: config.labels" in refused.err


def test_the_same_tree_gives_the_same_digest_and_an_edit_another(small: Small, tree: Path, tmp_path: Path) -> None:
    first = small.here("dev", "--overlay", f"{tree}:/opt").answer
    assert small.here("dev", "--overlay", f"{tree}:/opt", "--store", str(tmp_path / "other")).answer == first
    (tree / ".git" / "config").write_text("changed")
    assert small.here("dev", "--overlay", f"{tree}:/opt").answer == first
    (tree / "greeting").write_text("edited again\n")
    assert small.here("dev", "--overlay", f"{tree}:/opt").answer != first


def test_it_stays_one_that_is_never_promoted_where_it_is_exported_to(small: Small, tree: Path, tmp_path: Path) -> None:
    digest = small.here("dev", "--overlay", f"{tree}:/opt").answer
    file, other = str(tmp_path / "closure"), str(tmp_path / "other")
    assert small.here("store", "export", digest, "-o", file).code == 0
    assert small.here("store", "import", file, "--unsigned", "--store", other).code == 0
    with LocalStore(Path(other)) as store:
        assert store.database.roots() == [("dev", "small linux/amd64", Digest.parse(digest))]


def test_several_trees_make_one_layer_and_may_not_contradict_each_other(
    small: Small, tree: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "second").write_text("second\n")
    image = small.here("image").answer
    both = small.here("dev", "--overlay", str(tree), "--overlay", str(other)).answer
    assert len(layers(small, both)) == len(layers(small, image)) + 1
    (other / "greeting").write_text("contradicts\n")
    ran = small.here("dev", "--overlay", str(tree), "--overlay", str(other))
    assert ran.code == 2
    assert "greeting" in ran.err


def test_what_no_tree_can_hold_is_named_with_its_folder(small: Small, tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    ran = small.here("dev", "--overlay", str(tree))
    assert ran.code == 2
    assert f"{tree}/pipe" in ran.err


def test_wrong_overlays_are_told_all_at_once(small: Small, tree: Path) -> None:
    assert "begins with /" in small.here("dev", "--overlay", f"{tree}:opt").err
    ran = small.here("dev", "--overlay", f"{tree}:/../out", "--overlay", "nowhere")
    assert ran.code == 2
    assert "not a place in an image" in ran.err
    assert "--overlay nowhere: no such folder" in ran.err
