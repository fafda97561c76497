# SPDX-License-Identifier: Apache-2.0
"""``derive cache pull`` says what it read, and whether anything came."""

from __future__ import annotations

import pytest

from derive.cli.cache.pull import _told


@pytest.mark.parametrize(
    ("target", "brought", "told"),
    [
        (None, 0, "brought no outputs: derive cache pull TARGET brings those of a target"),
        ("probe", 1, "brought 1 output of probe"),
        ("probe", 0, "brought nothing of probe: it lacks nothing that would be taken"),
    ],
)
def test_what_was_read_and_what_came_are_told_apart(target: str | None, brought: int, told: str) -> None:
    assert _told(target, 11, brought) == f"read logs, in which keys that count vouch for 11 steps; {told}"
