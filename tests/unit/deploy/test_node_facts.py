# SPDX-License-Identifier: Apache-2.0
"""The facts of this machine, against what other programs and modules say of it."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path
from typing import Any

import pytest

from derive.fabric.gather import gather
from support.node_programs import answered, do

ASKED: dict[str, Any] = {
    "name": "here",
    "folders": ["/", "/nowhere/at/all"],
    "mounts": ["/etc", "/etc/passwd", "/nowhere"],
    "files": ["/etc/passwd", "/nowhere"],
    "ports": [],
    "modules": ["no_such_module"],
    "units": [],
    "lldp": False,
}


@pytest.fixture(scope="module")
def facts() -> Any:
    return do("facts", **ASKED)


def test_they_say_what_this_machine_says(facts: Any) -> None:
    assert facts["kernel"] == platform.release()
    assert facts["machine"] == platform.machine()
    assert facts["page_bytes"] == os.sysconf("SC_PAGE_SIZE")
    assert facts["python"] == platform.python_version()
    assert facts["user"]["uid"] == os.getuid()
    assert facts["host"] == socket.gethostname().partition(".")[0]
    assert facts["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert 0 < facts["memory"]["available_bytes"] < facts["memory"]["total_bytes"]
    assert facts["unread"] == []


def test_the_network_is_as_derive_itself_sees_it(facts: Any) -> None:
    assert {**facts["network"], "gathered_s": None} == {**gather(host="here").body(), "gathered_s": None}


def test_space_is_told_of_a_folder_that_is_not_there_yet(facts: Any) -> None:
    assert facts["space"]["/nowhere/at/all"]["at"] == "/"
    assert facts["space"]["/nowhere/at/all"]["device"] == Path("/").stat().st_dev
    assert 0 < facts["space"]["/"]["free_bytes"] <= facts["space"]["/"]["total_bytes"]


def test_mounts_say_what_they_are_and_why_not(facts: Any) -> None:
    assert facts["mounts"]["/etc"] == {
        "kind": "folder",
        "readable": True,
        "writable": os.access("/etc", os.W_OK),
        "reason": None,
    }
    assert facts["mounts"]["/etc/passwd"]["kind"] == "file"
    assert facts["mounts"]["/nowhere"]["reason"] == "no such file or directory"
    assert facts["files"] == {"/etc/passwd": facts["files"]["/etc/passwd"], "/nowhere": None}


def test_what_is_absent_is_null(facts: Any) -> None:
    assert facts["modules"] == {"no_such_module": None}
    assert facts["neighbours"] is None


def test_a_port_that_is_listened_on_is_told_from_one_that_is_not() -> None:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        one.listen()
        ports = [one.getsockname()[1], two.getsockname()[1]]
        assert do("facts", **{**ASKED, "ports": ports})["ports"] == {str(ports[0]): True, str(ports[1]): False}


def test_a_program_of_a_node_answers_the_same(facts: Any) -> None:
    answer = answered("facts", **ASKED)["done"]
    assert set(answer) == set(facts)
    assert {key: answer[key] for key in ("derive", "kernel", "user", "mounts", "cgroup", "systemd")} == {
        key: facts[key] for key in ("derive", "kernel", "user", "mounts", "cgroup", "systemd")
    }
