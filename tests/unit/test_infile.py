# SPDX-License-Identifier: Apache-2.0
"""What is no file is never waited for, and what is too large not read whole."""

from __future__ import annotations

import io
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from derive.doctor import facts
from derive.errors import InputErrors
from derive.fabric.places import read_bytes, read_site
from derive.fabric.site_file import LARGEST
from derive.infile import LARGEST as LARGEST_NAMED
from derive.infile import NotPlain, read_named, read_plain, read_stream
from support.small import run_here

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "fabric" / "examples" / "ring4.toml"


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """End a test in which something waits that must not."""
    signal.alarm(20)
    yield
    signal.alarm(0)


def refused(path: Path) -> str:
    with pytest.raises(InputErrors) as error:
        read_site(path)
    (problem,) = error.value.problems()
    assert problem.where == str(path)
    return problem.message


def test_a_file_is_read_with_its_mode_and_through_a_link_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    assert read_plain(tmp_path / "link", 4) == (b"text", 0o640)
    with pytest.raises(NotPlain, match="no regular file"):
        read_plain(tmp_path / "link", 4, follow=False)
    with pytest.raises(NotPlain, match="larger than 3 bytes"):
        read_plain(tmp_path / "file", 3)


def test_a_file_that_says_no_size_is_read() -> None:
    assert read_plain(Path("/proc/self/status"), 1 << 20)[0].startswith(b"Name:")


def test_a_site_file_may_be_a_link_and_nothing_but_a_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(EXAMPLE)
    assert read_site(tmp_path / "link").site.cabling == "ring4"
    os.mkfifo(tmp_path / "fifo")
    assert refused(tmp_path / "fifo") == "cannot be read: no regular file"
    assert refused(Path("/dev/zero")) == "cannot be read: no regular file"
    assert refused(tmp_path) == "cannot be read: is a directory"
    assert refused(tmp_path / "none") == "no such file"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
        assert refused(tmp_path / "socket") == "cannot be read: no regular file"


def test_a_site_file_has_a_size_that_one_can_have(tmp_path: Path) -> None:
    large = tmp_path / "site.toml"
    large.write_bytes(EXAMPLE.read_bytes())
    os.truncate(large, LARGEST + 1)
    assert refused(large) == f"cannot be read: larger than {LARGEST} bytes"


def problem_of(read: Callable[[], object]) -> tuple[str, str, str | None]:
    with pytest.raises(InputErrors) as error:
        read()
    (problem,) = error.value.problems()
    return problem.where, problem.message, problem.hint


def test_a_document_that_a_person_names_is_an_ordinary_file_of_a_size_that_one_can_have(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    assert read_named(tmp_path / "file", largest=4) == b"text"
    assert problem_of(lambda: read_named("/dev/zero")) == ("/dev/zero", "cannot be read: no regular file", None)
    assert problem_of(lambda: read_named("none", hint="make one")) == ("none", "no such file", "make one")
    assert problem_of(lambda: read_named("a\0b"))[1] == "cannot be read: no name of a file"
    os.truncate(tmp_path / "file", LARGEST_NAMED + 1)
    assert problem_of(lambda: read_named(tmp_path / "file"))[1] == f"cannot be read: larger than {LARGEST_NAMED} bytes"


def test_standard_input_is_read_no_further_than_that() -> None:
    assert read_stream(io.BytesIO(b"text"), "standard input", largest=4) == b"text"
    said = problem_of(lambda: read_stream(io.BytesIO(b"longer"), "standard input", largest=4))
    assert said[:2] == ("standard input", "cannot be read: larger than 4 bytes")


def test_facts_of_a_machine_are_not_read_from_a_device(tmp_path: Path) -> None:
    assert problem_of(lambda: read_bytes(Path("/dev/zero"), "hint"))[1] == "cannot be read: no regular file"
    ran = run_here("site", "init", "--facts", "/dev/zero", str(tmp_path / "site.toml"))
    assert (ran.code, "/dev/zero: cannot be read: no regular file" in ran.err) == (2, True)


def test_checks_do_not_wait_for_a_site_either(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    site = facts._site(ROOT, tmp_path / "fifo")
    assert getattr(site.data, "reason", None) == "cannot be read: no regular file"
