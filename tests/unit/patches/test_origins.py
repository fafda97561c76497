# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.build.service import Options
from derive.errors import InputErrors, Missing, Unavailable
from derive.patches.origins import named_tree
from support.archives import Tar, Zip, folder, tar, wheel
from support.patch_project import PatchProject, patch_project, plain, quick_folder, write_tree

PATCH = {"0001-x.patch": b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-f\n+x\n"}


@pytest.fixture
def project() -> Iterator[PatchProject]:
    with quick_folder() as place, patch_project(place, plain(f="f\n", dir__g="g\n"), PATCH) as made:
        yield made


def test_a_folder_an_archive_and_a_digest_mean_the_same_tree(project: PatchProject, tmp_path: Path) -> None:
    """Also when the archive has one folder around everything, and the folder a repository of git."""
    write_tree(project.source / ".git", plain(config="x"))
    found = named_tree(project.shop, str(project.source))
    members = [folder(b"up-1/"), Tar(name=b"up-1/dir/g", data=b"g\n"), Tar(name=b"up-1/f", data=b"f\n")]
    (tmp_path / "up-1.tar.gz").write_bytes(gzip.compress(tar(*members)))
    with zipfile.ZipFile(tmp_path / "up.zip", "w") as archive:
        archive.writestr("f", "f\n")
        archive.writestr("dir/g", "g\n")
    for operand in (str(tmp_path / "up-1.tar.gz"), str(tmp_path / "up.zip"), f"tree:{found}", str(found)):
        assert named_tree(project.shop, operand) == found


def test_a_wheel_is_taken_as_it_is_from_its_path(project: PatchProject, tmp_path: Path) -> None:
    (tmp_path / "demo-1.0-py3-none-any.whl").write_bytes(wheel(Zip(name=b"demo/__init__.py", data=b"")))
    tree = project.store.listing(named_tree(project.shop, str(tmp_path / "demo-1.0-py3-none-any.whl"), "up"))
    assert {path for path, _ in tree.files()} == {
        b"demo/__init__.py",
        *(b"demo-1.0.dist-info/" + name for name in (b"METADATA", b"RECORD", b"WHEEL")),
    }


@pytest.mark.parametrize("operand", ["./nowhere", "/etc/passwd", "tree:sha256:00", "nothing", "git:v1"])
def test_what_is_no_tree_is_refused(project: PatchProject, operand: str) -> None:
    with pytest.raises(InputErrors):
        named_tree(project.shop, operand, "up")


def test_an_absent_tree_is_missing_and_offline_nothing_is_asked(project: PatchProject) -> None:
    with pytest.raises(Missing):
        named_tree(project.shop, f"tree:sha256:{'0' * 64}")
    with pytest.raises(Unavailable):
        named_tree(replace(project.shop, options=Options(jobs=1, offline=True)), "git:v1", "up")
