# SPDX-License-Identifier: Apache-2.0
"""What a rule of the fabric is: an identifier, a reason, a fix, and a judge that says where it is broken.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from derive.errors import Problem

if TYPE_CHECKING:
    from derive.fabric.site import Cable, Site
    from derive.fabric.transports import Fabric
    from derive.recipes.resolved import Resolved

Severity: TypeAlias = Literal["error", "warn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteInput:
    """A site and the file that it was read from.

    ``cable_numbers`` are the places of the site's cables in that file, where it names them; None: nothing of cables
    stands in it.
    """

    site: Site
    file: str = "site"
    cable_numbers: tuple[int, ...] | None = None

    def at(self, key: str) -> str:
        """Return the place of a key."""
        return f"{self.file}: {key}"

    def at_cable(self, index: int, key: str = "") -> str:
        """Return the place of a cable, or of a key of it, where the file has it, else the cable by its nodes."""
        if self.cable_numbers is not None and index < len(self.cable_numbers):
            place = f"cables[{self.cable_numbers[index]}]"
        else:
            place = f"cables[{index}]"
        return self.at(f"{place}.{key}" if key else place)

    def between(self, cable: Cable) -> str:
        """Name a cable by the nodes that it joins."""
        return " and ".join(self.name(rank) for rank in cable.ranks)

    def name(self, rank: int) -> str:
        """Return a node's name."""
        return self.site.nodes[rank].name if 0 <= rank < len(self.site.nodes) else f"rank {rank}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleInput:
    """What a rule judges: a shape, the site that it is to run at, and what transports require."""

    resolved: Resolved
    site: Site
    fabric: Fabric
    site_file: str = "site"
    cable_numbers: tuple[int, ...] | None = None

    @property
    def of_site(self) -> SiteInput:
        """Return the site's part."""
        return SiteInput(site=self.site, file=self.site_file, cable_numbers=self.cable_numbers)

    def at(self, path: str) -> str:
        """Return where a value of the shape stands: ``arguments.max-num-seqs``, ``environment.NCCL_ALGO``, ``shape``.

        A value that is not there has no origin; its place is the shape's.
        """
        origin = self.resolved.origins.get(path)
        if origin is not None:
            return f"{origin.file}: {origin.key}"
        return f"recipes/{self.resolved.recipe}.toml: shapes.{self.resolved.shape}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRule:
    """A rule that every site obeys, whatever runs there."""

    id: str
    severity: Severity = "error"
    why: str
    fix: str
    judge: Callable[[SiteInput], Iterator[Problem]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule that a shape and a site obey together. ``judge`` returns one problem for each breach, placed.

    Where ``refuses`` is false, a shape that breaks it is rendered all the same, and is not deployable.
    """

    id: str
    severity: Severity = "error"
    refuses: bool = True
    why: str
    fix: str
    judge: Callable[[RuleInput], list[Problem]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A rule that is broken, and how."""

    rule: Rule
    problem: Problem
