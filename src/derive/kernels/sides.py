# SPDX-License-Identifier: Apache-2.0
"""From what a person writes to one side of a comparison: a unit's name, a derivation, what was built last, or ``.``.

Edge: the store; the project, loaded only when an operand needs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from derive.build.execute import is_present
from derive.canonical import Digest, Json, unescape
from derive.derivations.model import Output, parse_output
from derive.errors import InputErrors, Missing
from derive.kernels.answers import read_facts, read_files
from derive.kernels.building import plan_units
from derive.kernels.compare import Built, Side
from derive.kernels.drivers.device import read_instructions
from derive.kernels.index import unit_name
from derive.kernels.selecting import LIST, Kernels, Target, kernels_of, select
from derive.operands import ByDigest, Named, Operand, Released, Working, parse_operand
from derive.project import Project
from derive.store import graph as stored
from derive.store.local import LocalStore
from derive.why.find import Finder, FoundDerivation

CUDA = "kernel.cu"
SASS = "kernel.sass"


@dataclass(slots=True)
class Sides:
    """Finds sides. ``project`` is called at most once."""

    store: LocalStore
    project: Callable[[], Project]
    _kernels: Kernels | None = field(default=None, init=False)

    def pair(self, first: str, second: str) -> tuple[Side, Side]:
        """Return two sides; beside ``.``, the working tree, a name means what was built of it last.

        Raises:
            InputErrors: when an operand names no unit, or both are ``.``.
            Missing: when nothing of that name was built.
        """
        one, two = parse_operand(first), parse_operand(second)
        if isinstance(one, Working) and isinstance(two, Working):
            raise InputErrors.one("the working tree beside itself", hint="name what to compare it with")
        if isinstance(two, Working):
            other = self._last(one)
            return other, self._written(other.name)
        if isinstance(one, Working):
            other = self._last(two)
            return self._written(other.name), other
        return self._side(one), self._side(two)

    def _side(self, operand: Operand) -> Side:
        match operand:
            case Named(name=name):
                return self._written(name)
            case ByDigest() | Released():
                found = Finder(self.store, self.project).derivation(operand)
                return self._stored(found.id, str(operand))
            case Working():
                raise AssertionError(operand)

    def _last(self, operand: Operand) -> Side:
        """Return what was built last of a unit's name; raises as :meth:`pair`."""
        if not isinstance(operand, Named):
            return self._side(operand)
        try:
            found = Finder(self.store, self.project).last(Named(operand.name))
        except Missing:
            self._target(operand.name)  # a name that nothing has is that name's fault
            hint = f"build it first: derive kernels build {operand.name}"
            raise Missing(f"nothing of {operand.name} was built into this store", hint=hint) from None
        assert isinstance(found, FoundDerivation)
        return self._stored(found.id, operand.name)

    def _written(self, name: str) -> Side:
        """Return what the working tree makes of a unit."""
        target = self._target(name)
        work = plan_units([target], self.store, self.project().root, to_run=False)
        output = work.output(target.device) if work.is_done(target.device) else None
        return self._made(target.device.id, target.device.document(), output)

    def _target(self, name: str) -> Target:
        if self._kernels is None:
            from derive.derivations.scope import load_scope

            self._kernels = kernels_of(load_scope(self.project()), ())
        found = select([one.unit for one in self._kernels.targets], [name], None)
        if len(found) > 1:
            detail = [f"may be    {unit.name}" for unit in found[:8]]
            detail += [f"and {len(found) - 8} more"] if len(found) > 8 else []
            raise InputErrors.one(f"{name!r} is {len(found)} units", detail=detail, hint="name one of them")
        return next(one for one in self._kernels.targets if one.unit.name == found[0].name)

    def _stored(self, key: Digest, shown: str) -> Side:
        row = stored.derivations(self.store.database, [key]).get(key)
        if row is None or not row.builder.startswith("kernel/"):
            raise _no_unit(shown, None if row is None else row.name)
        found = self.store.database.realisation(row.resolved)
        output = None if found is None else parse_output(found.outputs["out"])
        if output is not None and not is_present(self.store, output):
            output = None
        return self._made(key, row.document, output)

    def _made(self, key: Digest, document: Mapping[str, Json], output: Output | None) -> Side:
        arguments, inputs = document["arguments"], document["inputs"]
        assert isinstance(arguments, Mapping)
        assert isinstance(inputs, Mapping)
        unit, root = arguments.get("unit"), inputs.get("root")
        if not isinstance(unit, Mapping):
            raise _no_unit(str(key.short), str(arguments.get("part")))
        name = unit_name(unit)
        return Side(
            name=name,
            derivation=key,
            root=str(root.get("derivation") or root.get("fixed")) if isinstance(root, Mapping) else "",
            unit=unit,
            source=unescape(str(arguments["source"])),
            built=None if output is None else _built(self.store, output, name),
        )


def _built(store: LocalStore, output: Output, name: str) -> Built:
    files = read_files(store, output, (CUDA, SASS), name)
    return Built(
        output=str(output),
        facts=read_facts(store, output, name),
        cuda=files[CUDA],
        instructions=Counter(read_instructions(files[SASS].decode("utf-8", "replace"))),
    )


def _no_unit(shown: str, what: str | None) -> InputErrors:
    said = f"{shown} is no compiled unit" + (f": it is {what}" if what else "")
    return InputErrors.one(said, hint=LIST)
