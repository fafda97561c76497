# SPDX-License-Identifier: Apache-2.0
"""Makes the modules that measure importable, as they are for the script beside them.

Edge: the import path.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "bench" / "engine"))
