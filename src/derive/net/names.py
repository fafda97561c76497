# SPDX-License-Identifier: Apache-2.0
"""The one spelling of a Python project's name.

Core: no IO.
"""

from __future__ import annotations

import re


def normalise(project: str) -> str:
    """Return a project's normalised name."""
    return re.sub(r"[-_.]+", "-", project).lower()
