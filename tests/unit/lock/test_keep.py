# SPDX-License-Identifier: Apache-2.0
"""What a new resolution may move."""

from __future__ import annotations

from derive.lock.keep import KeepAll, MoveAll, MoveNames, stays


def test_each_way_keeps_what_it_says() -> None:
    assert stays(KeepAll(), "a")
    assert not stays(MoveAll(), "a")
    assert stays(MoveNames(frozenset({"b"})), "a")
    assert not stays(MoveNames(frozenset({"a"})), "a")
