# SPDX-License-Identifier: Apache-2.0
"""Lock documents: what they hold, how they are written and looked up."""

from __future__ import annotations

import json

import pytest

from derive.canonical import Digest
from derive.errors import InputErrors
from derive.lock.documents import check_against, render_lock, target_name
from derive.net.places import DebPath, WheelFile
from support.locks import WISH, deb, debian_lock, python_lock, source, wheel


def test_a_closure_is_looked_up_by_name_and_architecture() -> None:
    assert [entry.file for entry in debian_lock().closure("run", "arm64")] == ["a_1.0-1_arm64.deb", "b_1.0-1_all.deb"]


@pytest.mark.parametrize(
    ("name", "architecture", "message"),
    [("walk", "amd64", "has no closure walk"), ("run", "riscv64", "the closure run of the set x is not for riscv64")],
)
def test_what_a_set_does_not_declare_is_an_input_error(name: str, architecture: str, message: str) -> None:
    with pytest.raises(InputErrors) as caught:
        debian_lock().closure(name, architecture, where="derivations/y.toml: packages")
    (problem,) = caught.value.problems()
    assert message in problem.message
    assert problem.where == "derivations/y.toml: packages"
    assert problem.detail[0].startswith("known     ")


def test_sources_and_wheels_are_looked_up_by_name() -> None:
    assert debian_lock().source("b").version == "1-1"
    assert python_lock().wheel("n", "3.13", "arm64").file == "n-1.0-cp313-cp313-manylinux_2_17_aarch64.whl"
    with pytest.raises(InputErrors, match="1 problem"):
        debian_lock().source("a")
    with pytest.raises(InputErrors):
        python_lock().wheel("zz", "3.13", "arm64")
    with pytest.raises(InputErrors):
        python_lock().target("3.12", "arm64")


def test_entries_say_what_a_fetch_needs() -> None:
    entry = deb("a", suite="trixie-security")
    wanted = entry.wanted()
    assert wanted.locator == DebPath(archive="debian-security", path=entry.locator)
    assert (wanted.name, wanted.version, wanted.sha256, wanted.size) == ("a", "1.0-1", entry.sha256, 10)
    assert wheel("a").wanted().locator == WheelFile(project="a", file="a-1.0-py3-none-any.whl")
    assert [item.file for item in source("b").wanted()] == ["b_1-1.debian.tar.xz", "b_1.orig.tar.gz"]
    assert source("b").size == 10


def test_the_file_is_laid_out_one_way() -> None:
    data = render_lock(debian_lock())
    document = json.loads(data)
    assert data.endswith(b"\n}\n")
    assert document["derive"] == "lock/1"
    assert [(entry["name"], entry["type"]) for entry in document["entries"]] == [
        ("a", "deb"),
        ("a", "deb"),
        ("b", "deb"),
        ("b", "source"),
    ]
    assert data == (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def test_a_changed_wish_names_the_command() -> None:
    lock = debian_lock()
    assert check_against(lock, WISH, wish_file="lock/x.toml") == []
    (problem,) = check_against(lock, Digest("2" * 64), wish_file="lock/x.toml")
    assert problem.where == "lock/x.toml"
    assert problem.detail == (f"expected  sha256:{'1' * 64}", f"got       sha256:{'2' * 64}")
    assert problem.hint == "run: derive lock x"


def test_targets_are_named_for_python_and_architecture() -> None:
    assert target_name("3.13", "arm64") == "cp313-arm64"
