# SPDX-License-Identifier: Apache-2.0
"""Where a user's own settings lie.

Edge: paths, from the environment that it is given. Imports nothing heavy: every rendering asks for a site.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def user_config(environ: Mapping[str, str]) -> Path:
    """Return where the user's ``config.toml`` lies, whether it is there or not."""
    base = environ.get("XDG_CONFIG_HOME") or ""
    folder = Path(base) if Path(base).is_absolute() else Path(environ.get("HOME") or "/") / ".config"
    return folder / "derive" / "config.toml"
