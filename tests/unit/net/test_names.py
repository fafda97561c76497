# SPDX-License-Identifier: Apache-2.0
"""Names of Python projects."""

from __future__ import annotations

from derive.net.names import normalise


def test_project_names_are_normalised() -> None:
    assert normalise("Foo._-Bar") == "foo-bar"
