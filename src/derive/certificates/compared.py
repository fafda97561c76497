# SPDX-License-Identifier: Apache-2.0
"""What several builders got of the same derivations, output by output, and which derivation differs first.

Core: no IO.

A derivation whose inputs were equal everywhere, and whose outputs are not, differs of itself. One that stands on such a
one was another derivation for each builder, and says nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.build.knowledge import Known
from derive.canonical import Digest, Json
from derive.derivations.model import Derivation, Output, Platform

Got = Mapping[Digest, Known]
"""What a builder got, by the id of the derivation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One output of a derivation as each builder has it, in their order; None where one has none.

    ``is_first``: the derivation's inputs were the same for all, so that a difference began with it.
    """

    platform: Platform
    derivation: Digest
    name: str
    output: str
    got: tuple[Output | None, ...]
    is_first: bool

    @property
    def differs(self) -> bool:
        """Say whether two builders have it otherwise."""
        return len(set(self.got)) > 1

    def document(self, builders: Sequence[str]) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "platform": self.platform,
            "derivation": self.derivation.hex,
            "name": self.name,
            "output": self.output,
            "got": {name: None if one is None else str(one) for name, one in zip(builders, self.got, strict=True)},
            "differs": self.differs,
            "first": self.differs and self.is_first,
        }


def rows_of(platform: Platform, order: Sequence[Derivation], got: Sequence[Got]) -> Iterator[Row]:
    """Yield every output of derivations, inputs before what uses them; what is fetched is checked by its digest."""
    for derivation in order:
        if derivation.fixed is not None:
            continue
        known = [one.get(derivation.id) for one in got]
        is_first = len({None if one is None else one.resolved for one in known}) == 1
        for output in sorted({name for one in known if one is not None for name in one.outputs}):
            yield Row(
                platform=platform,
                derivation=derivation.id,
                name=derivation.name,
                output=output,
                got=tuple(None if one is None else one.outputs.get(output) for one in known),
                is_first=is_first,
            )


def first_of(rows: Sequence[Row]) -> Row | None:
    """Return the first output that differs of itself; None where nothing differs."""
    differing = [one for one in rows if one.differs]
    return next((one for one in differing if one.is_first), differing[0] if differing else None)
