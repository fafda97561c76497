# SPDX-License-Identifier: Apache-2.0
"""What the tests' fixtures hand on of the project's own image.

Core: no IO.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

AMD64: Final = "linux/amd64"
ARM64: Final = "linux/arm64"
PLATFORMS: Final = (AMD64, ARM64)


@dataclass(frozen=True, slots=True)
class Derived:
    """What ``derive image`` gave: the store that it filled, and the digest printed for each platform."""

    store: Path
    digests: dict[str, str]
