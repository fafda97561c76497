# SPDX-License-Identifier: Apache-2.0
"""What moved between two locks."""

from __future__ import annotations

from dataclasses import replace

from derive.canonical import Digest
from derive.lock.table import move_rows, moves
from support.locks import debian_lock, python_lock


def test_nothing_moves_between_equal_locks() -> None:
    assert moves(debian_lock(), debian_lock()) == ()


def test_everything_comes_when_there_was_no_lock() -> None:
    found = moves(None, debian_lock())
    assert [(move.name, move.type, move.old, move.new) for move in found] == [
        ("a", "deb", None, "1.0-1"),
        ("b", "deb", None, "1.0-1"),
        ("b", "source", None, "1-1"),
    ]
    assert move_rows(found)[0] == ("a", "deb", "-", "1.0-1", "20 B", "MIT")


def test_a_move_tells_versions_sizes_and_licences() -> None:
    old = python_lock()
    new = replace(
        old,
        wheels=(
            replace(
                old.wheels[0], version="2.0", file="a-2.0-py3-none-any.whl", size=2_500_000, licence="BSD-3-Clause"
            ),
            *old.wheels[1:],
        ),
    )
    (move,) = moves(old, new)
    assert move_rows([move]) == (("a", "wheel", "1.0", "2.0", "10 B -> 2.5 MB", "MIT -> BSD-3-Clause"),)
    assert move.to_json()["size_new_bytes"] == 2_500_000


def test_what_went_and_what_changed_its_bytes_alone_are_told_apart() -> None:
    old = python_lock()
    went = replace(old, wheels=old.wheels[1:])
    assert move_rows(moves(old, went)) == (("a", "wheel", "1.0", "removed", "10 B", "MIT"),)
    other = replace(old, wheels=(replace(old.wheels[0], sha256=Digest("9" * 64)), *old.wheels[1:]))
    (move,) = moves(old, other)
    assert move.bytes_only
    assert move_rows([move])[0][3] == "same version, other files"
