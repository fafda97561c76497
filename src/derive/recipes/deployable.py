# SPDX-License-Identifier: Apache-2.0
"""Can a shape run from its image? What it needs, held against what the image says it can do.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from derive.errors import Problem
from derive.fabric.transports import Fabric
from derive.recipes.resolved import Need, Resolved
from derive.toml import parse_toml
from derive.words import nearest

_SLIP = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """One thing without which a shape is not deployable.

    ``capability`` is what the image lacks, None where the shape itself is only planned; ``because`` what in the shape
    needs it, or why it is only planned; ``near`` what was probably meant, of a name that nothing else knows.
    """

    capability: str | None
    because: str
    near: str | None = None

    @property
    def text(self) -> str:
        """The sentence for people: ``not deployable: needs engram-disk (memory.engram = disk)``."""
        if self.capability is None:
            return f"not deployable: planned: {self.because}"
        meant = "" if self.near is None else f": did you mean {self.near}?"
        return f"not deployable: needs {self.capability} ({self.because}){meant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Collectives of an image that take the calls which a shape leaves to others.

    ``capability`` is what the image has, ``owner`` the transport that it is for, ``transport`` the shape's.
    """

    capability: str
    owner: str
    transport: str

    @property
    def because(self) -> str:
        """What does not go together."""
        return f"the image has {self.capability}, which is for {self.owner}, and the shape has {self.transport}"

    @property
    def text(self) -> str:
        """The sentence for people."""
        return f"not deployable: {self.because}"


def verdict(resolved: Resolved, capabilities: AbstractSet[str]) -> tuple[Missing, ...]:
    """Return what is missing, nothing for a shape that can run; ``capabilities`` are what the image declares."""
    planned = resolved.promotion.planned
    ahead = () if planned is None else (Missing(capability=None, because=f"transport {resolved.transport}: {planned}"),)
    lacking = (need for need in resolved.needs if need.capability not in capabilities)
    return (*ahead, *(_lacking(need, capabilities) for need in lacking))


def _lacking(need: Need, capabilities: AbstractSet[str]) -> Missing:
    """Return what is missing; a name that was typed and is almost one that the image declares is a slip of the hand."""
    is_typed = need.because.rpartition(".")[2] == "needs"
    meant = nearest(need.capability, sorted(capabilities), _SLIP) if is_typed else None
    return Missing(capability=need.capability, because=need.because, near=meant)


def clashes(resolved: Resolved, capabilities: AbstractSet[str], fabric: Fabric) -> tuple[Clash, ...]:
    """Return what an image has of engines of small collectives other than that of the shape's transport, by name.

    A transport without collectives calls none of them, and goes with every image.
    """
    transport = fabric.transports.get(resolved.transport)
    if transport is None or not transport.collectives:
        return ()
    return tuple(
        Clash(capability=name, owner=owner.name, transport=transport.name)
        for owner in fabric.transports.values()
        for name in owner.own_needs
        if name in capabilities and owner.engine not in (None, transport.engine)
    )


def awaited(resolved: Resolved, missing: Iterable[Missing]) -> frozenset[str]:
    """Return the paths of values that only what is missing would read: ``environment.NAME``, ``arguments.NAME``.

    A transport, kernel backend or patched library that the image lacks has options and variables that nothing in it
    knows. The shape is not deployable, and is rendered in full all the same: those are no faults of the recipe. What
    something else reads is checked as ever.
    """
    lacking = {one.capability for one in missing}
    return frozenset(path for path, origin in resolved.origins.items() if not lacking.isdisjoint(origin.needs))


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
