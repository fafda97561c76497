# SPDX-License-Identifier: Apache-2.0
"""A rendered folder is there whole or not at all, and only an earlier one of its kind is replaced."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from derive.errors import HostRefuses, InputErrors
from derive.render import folder as module
from derive.render.folder import write_folder
from support.cli import environment
from support.launching import project_shape, rendered

FILES = rendered(project_shape("probe", "triangle")).files
OTHER = rendered(project_shape("probe", "ring4")).files


def read(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(folder: Path) -> str:
    with pytest.raises(InputErrors) as error:
        write_folder(FILES, folder)
    (problem,) = error.value.problems()
    return f"{problem.where.removeprefix(str(folder))}: {problem.message}"


def test_files_lie_where_they_are_named_and_only_scripts_can_be_run(tmp_path: Path) -> None:
    write_folder(FILES, tmp_path / "out")
    assert read(tmp_path / "out") == FILES
    runnable = {path for path in FILES if os.access(tmp_path / "out" / path, os.X_OK)}
    assert {path.partition("/")[2] for path in runnable} == {"run", "await-guard"} & {
        path.partition("/")[2] for path in FILES
    }
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208 - hidden ones, too


def test_an_earlier_rendering_is_replaced_whole_and_an_empty_folder_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for files in (OTHER, FILES, FILES):
        write_folder(files, tmp_path / "out")
        assert read(tmp_path / "out") == files
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208 - as above


def test_one_nodes_files_alone_are_known_again(tmp_path: Path) -> None:
    part = {path: data for path, data in OTHER.items() if not path.startswith(("spark2", "spark3", "spark4"))}
    write_folder(part, tmp_path / "out")
    write_folder(FILES, tmp_path / "out")
    assert read(tmp_path / "out") == FILES


def test_a_folder_of_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    assert refused(tmp_path) == ": this folder holds other things than rendered files"
    (tmp_path / "manifest.json").write_text('{"derive":"other/1"}')
    assert refused(tmp_path) == ": this folder holds other things than rendered files"
    assert (tmp_path / "note").read_text() == "mine"


def test_a_file_that_somebody_added_or_changed_is_not_deleted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(OTHER, out)
    (out / "spark1" / "mine").write_text("x")
    assert refused(out) == "/spark1/mine: not as it was rendered, and would be deleted"
    (out / "spark1" / "mine").unlink()
    (out / "spark1" / "run").write_text("x")
    assert refused(out) == "/spark1/run: not as it was rendered, and would be deleted"


def test_a_file_or_a_place_in_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert refused(tmp_path / "file") == ": this is no folder"
    assert refused(tmp_path / "a" / "b") == f": the folder {tmp_path / 'a'} does not exist"


def test_what_a_killed_run_left_is_swept_and_what_a_living_one_needs_is_not(tmp_path: Path) -> None:
    dead, living = tmp_path / ".out.0.partial", tmp_path / ".out.1.partial"
    for place in (dead, living):
        place.mkdir()
        (place / "x").write_text("x")
    handle = os.open(living, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        write_folder(FILES, tmp_path / "out")
    finally:
        os.close(handle)
    assert not dead.exists()
    assert (living / "x").exists()


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    write_folder(OTHER, out)

    def full(_path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write", full)
    with pytest.raises(HostRefuses, match="no space left"):
        write_folder(FILES, out)
    assert read(out) == OTHER
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208 - as above


_KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, "tests")
from support.launching import project_shape, rendered
from derive.render import folder
files = rendered(project_shape("probe", "triangle")).files
left = int(sys.argv[2])
write = folder._write
def dying(path, data):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), 9)
    write(path, data)
folder._write = dying
put = folder._put
def put_and_die(staged, target):
    put(staged, target)
    os.kill(os.getpid(), 9)
folder._put = put_and_die
folder.write_folder(files, Path(sys.argv[1]))
"""


@pytest.mark.parametrize(("at", "expected"), [(len(FILES) // 2, OTHER), (len(FILES) + 1, FILES)])
def test_killed_at_any_moment_there_is_the_old_folder_or_the_new_one(
    tmp_path: Path, at: int, expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    write_folder(OTHER, out)
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", _KILLED, str(out), str(at)], cwd=root, env=environment(), check=False)
    assert done.returncode == -9
    assert read(out) == expected
    write_folder(FILES, out)
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208 - as above
