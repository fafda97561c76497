# SPDX-License-Identifier: Apache-2.0
"""Can a shape run from its image? What it needs, held against what the image says it can do.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from derive.errors import Problem
from derive.recipes.resolved import Resolved
from derive.toml import parse_toml

_FABRIC = "fabric/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """One thing without which a shape is not deployable.

    ``capability`` is what the image lacks, None where the shape itself is only planned; ``because`` what in the shape
    needs it, or why it is only planned.
    """

    capability: str | None
    because: str

    @property
    def text(self) -> str:
        """The sentence for people: ``not deployable: needs engram-disk (memory.engram = disk)``."""
        if self.capability is None:
            return f"not deployable: planned: {self.because}"
        return f"not deployable: needs {self.capability} ({self.because})"


def verdict(resolved: Resolved, capabilities: AbstractSet[str]) -> tuple[Missing, ...]:
    """Return what is missing, nothing for a shape that can run; ``capabilities`` are what the image declares."""
    planned = resolved.promotion.planned
    ahead = () if planned is None else (Missing(capability=None, because=f"transport {resolved.transport}: {planned}"),)
    lacking = (need for need in resolved.needs if need.capability not in capabilities)
    return (*ahead, *(Missing(capability=need.capability, because=need.because) for need in lacking))


def awaited(resolved: Resolved, missing: Iterable[Missing]) -> frozenset[str]:
    """Return the paths of values that only what is missing would read: ``environment.NAME``, ``arguments.NAME``.

    A transport or kernel backend that the image lacks gives options and variables that nothing in it knows. The shape
    is not deployable, and is rendered in full all the same: those are no faults of the recipe.
    """
    if not any(one.capability is not None and one.because.startswith(_FABRIC) for one in missing):
        return frozenset()
    return frozenset(path for path, origin in resolved.origins.items() if origin.file.startswith(_FABRIC))


def image_capabilities(files: Mapping[str, bytes], image: str) -> tuple[frozenset[str], list[Problem]]:
    """Return the names that an image's file declares; the rest of the file is judged where images are made."""
    file = f"images/{image}.toml"
    if file not in files:
        return frozenset(), [Problem(where=file, message="no such file")]
    table, problems = parse_toml(files[file], file)
    if table is None:
        return frozenset(), problems
    declared = table.get("capabilities", {})
    if isinstance(declared, dict) and all(isinstance(one, dict) for one in declared.values()):
        return frozenset(declared), []
    from derive.images.declarations import parse_image

    return frozenset(), parse_image(files[file], file)[1]
