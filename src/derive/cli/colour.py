# SPDX-License-Identifier: Apache-2.0
"""Whether an answer is written in colour.

Edge: environment, standard streams.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def wants_colour(args: argparse.Namespace) -> bool:
    """Say whether standard output is a terminal that is to show colour: not with --plain, NO_COLOR or a dumb one."""
    if getattr(args, "plain", False) or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()
