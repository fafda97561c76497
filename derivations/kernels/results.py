# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for the tests of kernels: what became of each test, sorted and without times, in one file.

Written to `$DERIVE_RESULTS` when all is over. Property tests try the same examples every time.
"""

from __future__ import annotations

import os
from pathlib import Path

import ds41_kernels  # noqa: F401 - first, or pytest would take the sources' folder of that name for the package
import hypothesis
import pytest

_OUTCOMES: dict[str, str] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and make hypothesis repeat itself."""
    config.addinivalue_line("markers", "slow: takes more than a few seconds; not among the quick ones")
    hypothesis.settings.register_profile("kernels", derandomize=True, deadline=None, database=None)
    hypothesis.settings.load_profile("kernels")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst that happened to a test."""
    if report.when == "call" or report.outcome != "passed":
        outcome = report.outcome if report.when == "call" or report.outcome == "skipped" else "error"
        if hasattr(report, "wasxfail"):
            outcome = "xpassed" if report.outcome == "passed" else "xfailed"
        _OUTCOMES[report.nodeid] = outcome


def pytest_sessionfinish() -> None:
    """Write the file."""
    lines = [f"{outcome:8}{name}\n" for name, outcome in sorted(_OUTCOMES.items())]
    Path(os.environ["DERIVE_RESULTS"]).write_text("".join(lines), encoding="utf-8")
