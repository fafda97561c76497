# SPDX-License-Identifier: Apache-2.0
"""Lines that say how far a deploy is."""

from __future__ import annotations

from derive.deploy.told import Told, line_text


def test_a_line_says_when_which_node_and_which_step() -> None:
    assert line_text(12_340_000_000, "spark2", "start", "begins", 6) == "[  12.3 s] spark2  start       begins"


def test_what_a_node_said_stays_in_its_line() -> None:
    assert "\n" not in line_text(0, "a", "stop", "two\nlines\x1b[2J", 3)


def test_all_nodes_have_a_column_as_wide_as_the_longest_name() -> None:
    said: list[str] = []
    told = Told.to(said.append, iter(range(9)).__next__, ["a", "longest"])
    told.line("all", "lease", "begins")
    assert said == ["[   0.0 s] all      lease       begins"]
