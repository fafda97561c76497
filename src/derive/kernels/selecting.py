# SPDX-License-Identifier: Apache-2.0
"""Which units a person means: kernels, units, or the beginnings of units' names, and an architecture.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from derive.canonical import Digest
from derive.derivations.declarations import KernelsDecl
from derive.derivations.evaluate import Evaluator
from derive.derivations.model import PLATFORMS, Derivation, Platform
from derive.derivations.scope import Scope, absent
from derive.errors import InputErrors, Problem, expected_got
from derive.kernels.units import Unit

LIST = "what there is: derive kernels list"
"""The hint where a name is not there, and none is near it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A unit, the step that compiles it for its GPU, and the steps that make its place in the caches of hosts."""

    unit: Unit
    device: Derivation
    hosts: tuple[Derivation, ...] = ()

    @property
    def steps(self) -> tuple[Derivation, ...]:
        """The steps of the unit alone, each after those that it needs."""
        return (self.device, *self.hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What hosts of one platform load kernels from: the tree of one declaration."""

    name: str
    host: Platform
    derivation: Derivation

    def __str__(self) -> str:
        return f"{self.name} {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """All units of a project, and the caches that are made of them."""

    targets: tuple[Target, ...]
    caches: tuple[Cache, ...]

    def select(self, names: Sequence[str], gpu: str | None) -> tuple[Target, ...]:
        """Return the units that are meant; raises as :func:`select`."""
        meant = select([target.unit for target in self.targets], names, gpu)
        by_name = {target.unit.name: target for target in self.targets}
        return tuple(by_name[unit.name] for unit in meant)


def kernels_of(scope: Scope, platforms: Sequence[Platform] = PLATFORMS[1:]) -> Kernels:
    """Return the units of a project, with their places in the caches for some host platforms.

    Raises:
        InputErrors: when they cannot be evaluated, such as where nothing says in which root they are compiled.
    """
    if not scope.kernels:
        return Kernels(targets=(), caches=())
    evaluator = Evaluator(scope)
    pairs = evaluator.kernel_units(sorted(scope.kernels))
    caches = [
        Cache(name=name, host=platform, derivation=evaluator.derivation(name, platform))
        for name, declared in sorted(scope.declared.items())
        if isinstance(declared.declaration, KernelsDecl)
        for platform in platforms
        if platform in declared.declaration.gpus
    ]
    hosts: dict[Digest, dict[Digest, Derivation]] = {}
    for cache in caches:
        for reference in cache.derivation.inputs.values():
            part = reference.derivation
            if "device" in part.inputs:
                hosts.setdefault(part.inputs["device"].derivation.id, {})[part.id] = part
    targets = tuple(
        Target(unit=unit, device=device, hosts=tuple(hosts.get(device.id, {}).values())) for unit, device in pairs
    )
    return Kernels(targets=targets, caches=tuple(caches))


def select(units: Sequence[Unit], names: Sequence[str], gpu: str | None) -> tuple[Unit, ...]:
    """Return the units that any of the names means, in the order given; no names mean all.

    Raises:
        InputErrors: every name that nothing has, an architecture that nothing is compiled for, or both together.
    """
    problems = [_absent(name, units) for name in names if not any(_is_meant(one, name) for one in units)]
    gpus = sorted({one.gpu for one in units})
    if gpu is not None and gpu not in gpus:
        problems.append(
            absent("--gpu", "architecture of a kernel", gpu, gpus, f"there are {', '.join(gpus) or 'none'}")
        )
    if problems:
        raise InputErrors(problems)
    meant = [one for one in units if not names or any(_is_meant(one, name) for name in names)]
    found = tuple(one for one in meant if gpu in (None, one.gpu))
    if names and not found:
        there = ", ".join(sorted({one.gpu for one in meant}))
        raise InputErrors.one(
            f"{', '.join(names)}: nothing of it is compiled for {gpu}", where="--gpu", detail=expected_got(there, gpu)
        )
    return found


def one_of_each(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """Return the first unit of every kernel and architecture: the subset that a quick check looks at."""
    first: dict[tuple[str, str], Unit] = {}
    for unit in units:
        first.setdefault((unit.kernel, unit.gpu), unit)
    return tuple(first.values())


def rows_text(rows: tuple[int, int | None]) -> str:
    """Write the counts of rows that a unit is for: ``1-64``, ``16``, ``65-``."""
    least, most = rows
    if most is None:
        return f"{least}-"
    return str(least) if least == most else f"{least}-{most}"


def _is_meant(unit: Unit, name: str) -> bool:
    wanted = name.rstrip("/")
    return unit.name == wanted or (bool(wanted) and unit.name.startswith(f"{wanted}/"))


def _absent(name: str, units: Sequence[Unit]) -> Problem:
    depth = name.rstrip("/").count("/") + 1
    near = {"/".join(unit.name.split("/")[:depth]) for unit in units}
    return absent("", "kernel or unit", name, near or {unit.kernel for unit in units}, LIST)
