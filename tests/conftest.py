# SPDX-License-Identifier: Apache-2.0
"""What all rings share: property tests look at the same examples every time, unless asked to explore.

DERIVE_HYPOTHESIS=explore .venv/bin/python -m pytest tests/property
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("DERIVE_HYPOTHESIS", "fixed"))
