# SPDX-License-Identifier: Apache-2.0
"""What `derive records add` refuses before anything is read."""

from __future__ import annotations

import pytest

from support.small import run_here

SAID = ("hypothesis", "variable", "acceptance", "rollback", "base", "candidate", "result", "by", "why", "shape")


@pytest.mark.parametrize("name", SAID)
def test_an_option_that_is_given_twice_is_refused_and_neither_value_is_taken(name: str) -> None:
    """An experiment changes one thing: of two that are named, none is dropped in silence."""
    found = run_here("records", "add", "experiment", "wide", f"--{name}", "a", f"--{name}", "b")
    assert (found.code, found.out) == (2, "")
    assert f"argument --{name}: given twice" in found.err
