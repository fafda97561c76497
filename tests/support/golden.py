# SPDX-License-Identifier: Apache-2.0
"""Golden files: what the program writes must be what a reviewed file says; one switch accepts the new text.

Edge: reads and writes files beside the tests, reads the environment.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

ACCEPT_VARIABLE = "DERIVE_GOLDEN_ACCEPT"
GOLDEN = Path(__file__).parent.parent / "golden"


def check_golden(name: str, text: str, *, advice: str = "") -> None:
    """Compare with tests/golden/NAME; on a difference leave NAME.actual and fail with a diff and the advice.

    With DERIVE_GOLDEN_ACCEPT=1 the text becomes the golden file.
    """
    file = GOLDEN / name
    actual = file.with_name(file.name + ".actual")
    if os.environ.get(ACCEPT_VARIABLE) == "1":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        actual.unlink(missing_ok=True)
        return
    expected = file.read_text() if file.exists() else ""
    if text == expected:
        actual.unlink(missing_ok=True)
        return
    actual.write_text(text)
    lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(file), str(actual), lineterm="")
    pytest.fail("\n".join([*lines, *advice.splitlines(), f"accept with {ACCEPT_VARIABLE}=1"]), pytrace=False)
