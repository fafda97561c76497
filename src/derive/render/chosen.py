# SPDX-License-Identifier: Apache-2.0
"""What a person named of what is to be rendered.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A recipe, a shape of it, the file of a site; None where the usual one is meant."""

    recipe: str | None = None
    shape: str | None = None
    site: str | None = None
