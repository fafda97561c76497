# SPDX-License-Identifier: Apache-2.0
"""What is written where a person said is there whole, or is as it was."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from derive.errors import HostRefuses, InputErrors
from derive.outfile import check_output, leads_to_stream, open_output
from support.cli import environment


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path | str, data: bytes) -> None:
    with open_output(path) as file:
        file.write(data)


def test_a_file_is_new_or_replaced_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    for data in (b"one", b"two"):
        write(tmp_path / "x", data)
        assert (tmp_path / "x").read_bytes() == data
    assert names(tmp_path) == ["x"]


def test_a_failure_keeps_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "x", b"before")
    with pytest.raises(TypeError), open_output(tmp_path / "x") as file:
        file.writelines([b"half", "no bytes"])  # type: ignore[list-item]
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"before")]


def test_the_mode_of_what_is_replaced_stays(tmp_path: Path) -> None:
    write(tmp_path / "x", b"")
    (tmp_path / "x").chmod(0o600)
    write(tmp_path / "x", b"secret")
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/old").write_bytes(b"old")
    for name in ("old", "new"):
        (tmp_path / name).symlink_to(f"there/{name}")
        write(tmp_path / name, b"written")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "there" / name).read_bytes() == b"written"
    assert names(tmp_path / "there") == ["new", "old"]


def test_a_fifo_is_written_into(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write(tmp_path / "pipe", b"x" * 200_000)
    reader.join()
    assert got == [b"x" * 200_000]
    assert (tmp_path / "pipe").is_fifo()
    assert names(tmp_path) == ["pipe"]


def test_a_device_is_written_into(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to(os.devnull)
    write(tmp_path / "null", b"x")
    assert Path(os.devnull).is_char_device()
    with pytest.raises(HostRefuses, match="cannot write /dev/full: no space left on device"):
        write("/dev/full", b"x")


def test_a_minus_is_standard_output() -> None:
    script = "from derive.outfile import open_output\nwith open_output('-') as file: file.write(b'\\xff\\n')"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, env=environment())
    assert done.stdout == b"\xff\n"


def test_folders_sockets_and_places_in_none_are_refused_by_the_name_given(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        for name in ("", "absent/x", "file/x", "socket", "absent/"):
            path = f"{tmp_path}/{name}"
            with pytest.raises(InputErrors) as caught:
                write(path, b"x")
            assert [one.where for one in caught.value.problems()] == [path]
    with pytest.raises(HostRefuses, match=f"cannot write {tmp_path}/loop"):
        write(tmp_path / "loop", b"x")
    with pytest.raises(InputErrors):
        write("a\0b", b"x")
    assert names(tmp_path) == ["file", "loop", "socket"]


def test_a_place_that_cannot_be_written_is_named_as_it_was_given() -> None:
    with pytest.raises(HostRefuses, match=r"^cannot write /proc/x: "):
        write("/proc/x", b"x")


def test_a_name_as_long_as_the_system_takes_can_be_written(tmp_path: Path) -> None:
    write(tmp_path / ("n" * 255), b"x")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"x"


def test_a_failure_to_read_something_else_is_not_told_as_one_to_write(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), open_output(tmp_path / "x"):
        (tmp_path / "absent").read_bytes()


def test_what_goes_past_is_told_from_what_is_kept(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    assert [leads_to_stream(one) for one in ("-", os.devnull, tmp_path / "pipe")] == [True] * 3
    assert [leads_to_stream(one) for one in (tmp_path, tmp_path / "file", tmp_path / "no", "a\0")] == [False] * 4


def test_whether_a_file_can_be_written_is_found_out_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"before")
    for name in ("x", "new"):
        check_output(tmp_path / name)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"before")]
    check_output("-")
    for place in (tmp_path, tmp_path / "x" / "y", tmp_path / "none" / "y"):
        with pytest.raises(InputErrors):
            check_output(place)
    with pytest.raises(HostRefuses, match="cannot write /proc/new"):
        check_output("/proc/new")
