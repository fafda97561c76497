# SPDX-License-Identifier: Apache-2.0
"""What is known of units: whether each is built, and what its compile says of it.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from derive.canonical import Json
from derive.derivations.model import Derivation, Output, TreeOutput
from derive.errors import Missing
from derive.kernels.building import plan_units
from derive.kernels.facts import LAUNCH, RESOURCES, Facts, parse_launch, parse_resources
from derive.kernels.selecting import Target
from derive.kernels.units import Unit
from derive.store.local import LocalStore
from derive.store.protocol import Store, read_all
from derive.trees.listing import File

if TYPE_CHECKING:
    from derive.derivations.scope import Scope

State: TypeAlias = Literal["built", "gone", "not built"]
"""Whether a unit is there: ``gone`` when it was built, and its output was collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One unit and what the store knows of it; ``facts`` and ``output`` are there for one that is built."""

    unit: Unit
    derivation: Derivation
    state: State
    doc: str
    tensor_parallel: tuple[int, ...]
    output: Output | None = None
    facts: Facts | None = None

    def document(self) -> dict[str, Json]:
        """Return the answer as it stands in a record."""
        facts = self.facts
        return {
            "unit": self.unit.name,
            **self.unit.document(),
            "doc": self.doc,
            "tensor-parallel": list(self.tensor_parallel),
            "derivation": str(self.derivation.id),
            "state": self.state,
            "output": None if self.output is None else str(self.output),
            "shared_memory_bytes": None if facts is None else facts.shared_memory_bytes,
            "resources": None if facts is None else facts.resources.document(),
        }


def list_units(scope: Scope, targets: Sequence[Target], store: LocalStore) -> tuple[Answer, ...]:
    """Return what is known of units, in their order; nothing is built."""
    work = plan_units(targets, store, scope.project.root, to_run=False)
    found = []
    for target in targets:
        unit, step = target.unit, work.steps[target.device.id]
        output = work.output(target.device) if work.is_done(target.device) else None
        was_built = step.expected_ns > 0
        shape = scope.kernels[unit.kernel].programs[unit.program].shapes[unit.shape]
        found.append(
            Answer(
                unit=unit,
                derivation=target.device,
                state="built" if output is not None else "gone" if was_built else "not built",
                doc=shape.doc,
                tensor_parallel=shape.tensor_parallel,
                output=output,
                facts=None if output is None else read_facts(store, output, unit.name),
            )
        )
    return tuple(found)


def read_facts(store: Store, output: Output, name: str) -> Facts:
    """Read what the compile of a unit says; raises Corrupt or Missing."""
    files = read_files(store, output, (RESOURCES, LAUNCH), name)
    return Facts(resources=parse_resources(files[RESOURCES], name), launch=parse_launch(files[LAUNCH], name))


def read_files(store: Store, output: Output, names: Sequence[str], unit: str) -> Mapping[str, bytes]:
    """Return files of a unit's output by name; raises Missing for one that it does not have."""
    listing = store.listing(output.digest) if isinstance(output, TreeOutput) else {}
    found: dict[str, bytes] = {}
    for name in names:
        entry = listing.get(name.encode())
        if not isinstance(entry, File):
            raise Missing(f"the output of {unit} has no {name}", hint=f"derive it again: derive kernels build {unit}")
        found[name] = read_all(store, entry)
    return found
