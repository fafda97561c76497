# SPDX-License-Identifier: Apache-2.0
"""A rendered folder is there whole or not at all, and only an earlier one of its kind is replaced."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep

import pytest

from derive.errors import HostRefuses, InputErrors
from derive.render import folder as module
from derive.render.folder import write_folder
from derive.render.replaceable import require_replaceable
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


def test_what_a_killed_run_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    left, others = f".out.{'0' * 16}.partial", [".out.0.partial", f".out.x.{'0' * 16}.partial", ".outx.partial"]
    for name in (left, *others):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("x")
    write_folder(FILES, tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "out"])  # noqa: PTH208 - as above


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


def test_links_and_empty_folders_that_somebody_added_are_not_deleted(tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_folder(OTHER, out)
    for place in ("mine", "spark1/mine"):
        (out / place).symlink_to(elsewhere)
        assert refused(out) == f"/{place}: not as it was rendered, and would be deleted"
        (out / place).unlink()
        (out / place).mkdir()
        assert refused(out) == f"/{place}: not as it was rendered, and would be deleted"
        (out / place).rmdir()
    (out / "spark2" / "run").rename(elsewhere / "run")
    (out / "spark2" / "run").symlink_to(elsewhere / "run")
    assert refused(out) == "/spark2/run: not as it was rendered, and would be deleted"


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_folder_of_links_or_of_empty_folders_is_not_empty(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "x").symlink_to(tmp_path) if kind == "link" else (out / "x").mkdir()
    assert refused(out) == ": this folder holds other things than rendered files"
    assert os.path.lexists(out / "x")


def test_a_nodes_folder_that_is_emptied_or_a_link_is_not_taken_for_a_rendered_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    part = {path: data for path, data in OTHER.items() if not path.startswith(("spark2", "spark3", "spark4"))}
    write_folder(part, out)
    (out / "spark2").mkdir()
    assert refused(out) == "/spark2: not as it was rendered, and would be deleted"
    (out / "spark2").rmdir()
    (out / "spark2").symlink_to("spark1")
    assert refused(out) == "/spark2: not as it was rendered, and would be deleted"


def test_a_nodes_manifest_that_says_other_than_the_launchs_is_not_deleted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(OTHER, out)
    manifest = out / "spark1" / "manifest.json"
    document = json.loads(manifest.read_bytes())
    manifest.write_text(json.dumps({**document, "files": {**document["files"], "mine": f"sha256:{'0' * 64}"}}))
    assert refused(out) == "/spark1/manifest.json: not as it was rendered, and would be deleted"


@pytest.mark.parametrize("place", ["manifest.json", "spark1/manifest.json", "spark1/run"])
@pytest.mark.parametrize("kind", ["fifo", "socket", "folder"])
def test_what_is_no_file_is_neither_waited_for_nor_deleted(tmp_path: Path, place: str, kind: str) -> None:
    out = tmp_path / "out"
    write_folder(OTHER, out)
    (out / place).unlink()
    with socket.socket(socket.AF_UNIX) as made, in_time():
        if kind == "socket":
            made.bind(str(out / place))
        else:
            os.mkfifo(out / place) if kind == "fifo" else (out / place).mkdir()
        is_whole = place == "manifest.json"
        message = ": this folder holds other things than rendered files"
        assert refused(out) == (message if is_whole else f"/{place}: not as it was rendered, and would be deleted")


def test_a_file_that_has_grown_beyond_any_that_is_rendered_is_not_read(tmp_path: Path) -> None:
    write_folder(OTHER, tmp_path / "out")
    os.truncate(tmp_path / "out" / "spark1" / "run", 1 << 40)
    assert refused(tmp_path / "out") == "/spark1/run: not as it was rendered, and would be deleted"


def test_a_folder_without_a_manifest_is_not_gone_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    looked: list[str] = []
    scandir = os.scandir

    def looking(path: Path) -> object:
        looked.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", looking)
    assert refused(tmp_path) == ": this folder holds other things than rendered files"
    assert str(tmp_path / "deep") not in looked


@contextmanager
def in_time() -> Iterator[None]:
    """End the test where something waits that must not."""
    signal.alarm(20)
    try:
        yield
    finally:
        signal.alarm(0)


@pytest.fixture
def ordinary() -> Iterator[Path]:
    """Yield a folder of a user to whom modes of files apply, and be that user."""
    root = os.geteuid() == 0
    with TemporaryDirectory() as name:
        if root:
            os.chown(name, 65534, 65534)
            os.setegid(65534)
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)
                os.setegid(0)


@pytest.mark.parametrize(
    ("place", "mode", "message"),
    [
        ("", 0o000, "cannot be read: permission denied"),
        ("", 0o300, "cannot be read: permission denied"),
        ("spark1", 0o000, "cannot be read: permission denied"),
        ("spark1", 0o300, "cannot be read: permission denied"),
        ("spark1", 0o500, "cannot be written in, and so not replaced"),
        ("spark1/run", 0o000, "cannot be read: permission denied"),
        ("manifest.json", 0o000, "cannot be read: permission denied"),
    ],
)
def test_what_cannot_be_looked_through_is_named_and_left(ordinary: Path, place: str, mode: int, message: str) -> None:
    out = ordinary / "out"
    write_folder(OTHER, out)
    (out / "spark1" / "mine").write_text("x")
    if place != "spark1":
        (out / "spark1" / "mine").unlink()
    path = out / place
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        told = refused(out)
    finally:
        path.chmod(before)
    assert told.endswith(f": {message}")
    assert told.startswith(f"/{place}" if place else ":")
    assert read(out).keys() >= OTHER.keys()
    assert os.listdir(ordinary) == ["out"]  # noqa: PTH208 - as above


def test_an_empty_folder_that_cannot_be_listed_is_not_taken_for_empty(ordinary: Path) -> None:
    out = ordinary / "out"
    out.mkdir()
    (out / "mine").write_text("x")
    out.chmod(0o300)
    assert refused(out) == ": cannot be read: permission denied"
    assert (out / "mine").read_text() == "x"
    out.chmod(0o700)


def test_what_is_left_of_an_earlier_rendering_is_said_with_its_place(ordinary: Path) -> None:
    left = ordinary / f".out.{'0' * 16}.partial"
    (left / "x").mkdir(parents=True)
    (left / "x" / "y").write_text("y")
    (left / "x").chmod(0o500)
    with pytest.raises(
        HostRefuses, match=r"cannot be deleted \(permission denied\); the new one is in its place"
    ) as told:
        write_folder(FILES, ordinary / "out")
    assert told.value.where == str(left)
    assert read(ordinary / "out") == FILES
    (left / "x").chmod(0o700)
    write_folder(FILES, ordinary / "out")
    assert os.listdir(ordinary) == ["out"]  # noqa: PTH208 - as above


def test_what_comes_while_the_folder_is_replaced_brings_the_earlier_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    exchange = module._exchange
    for way in (exchange, lambda _one, _other: False):
        write_folder(OTHER, out)
        monkeypatch.setattr(module, "_exchange", way)
        monkeypatch.setattr(module, "require_replaceable", late(out / "mine"))
        assert refused(out) == "/mine: not as it was rendered, and would be deleted"
        monkeypatch.undo()
        (out / "mine").unlink()
        assert read(out) == OTHER
        assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208 - as above


def late(path: Path) -> object:
    """Return the check, but that a file comes after it has been asked twice."""
    asked: list[Path] = []

    def checked(target: Path, said: Path) -> None:
        require_replaceable(target, said)
        asked.append(target)
        if len(asked) == 2:
            path.write_text("x")

    return checked


def test_where_folders_cannot_change_places_the_earlier_one_steps_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_exchange", lambda _one, _other: False)
    for files in (OTHER, FILES):
        write_folder(files, tmp_path / "out")
        assert read(tmp_path / "out") == files
        assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208 - as above


def test_a_folder_that_a_killed_run_had_moved_aside_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    write_folder(OTHER, out)
    out.rename(tmp_path / f".out.{'0' * 16}.replaced.partial")

    def full(_path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write", full)
    with pytest.raises(HostRefuses, match="no space left"):
        write_folder(FILES, out)
    assert read(out) == OTHER


def test_several_that_write_into_one_folder_wait_for_each_other(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def write(files: dict[str, bytes]) -> None:
        for _ in range(4):
            write_folder(files, out)

    started = [get_context("fork").Process(target=write, args=(files,)) for files in (FILES, OTHER, FILES)]
    for process in started:
        process.start()
    while any(process.is_alive() for process in started):
        # Whoever looks sees one or the other, and never none.
        assert out.is_dir() or not any(process.exitcode == 0 for process in started)
        sleep(0.001)
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0, 0, 0]
    assert read(out) in (FILES, OTHER)
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208 - as above


def test_a_folder_that_stays_locked_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0)
    with module._alone(tmp_path), pytest.raises(HostRefuses, match="another process has locked this folder"):
        write_folder(FILES, tmp_path / "out")
    write_folder(FILES, tmp_path / "out")


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
def put_and_die(staged, target, said):
    put(staged, target, said)
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
