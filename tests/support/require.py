# SPDX-License-Identifier: Apache-2.0
"""What a test needs and this machine lacks: a skip with its reason, or a failure where everything must run.

Edge: reads the environment.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

REQUIRE_VARIABLE = "DERIVE_TEST_REQUIRE"


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the running test for `reason`; fail it instead where DERIVE_TEST_REQUIRE=1."""
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(f"{reason} ({REQUIRE_VARIABLE}=1 makes this a failure)", pytrace=False)
    pytest.skip(reason)
