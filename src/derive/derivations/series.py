# SPDX-License-Identifier: Apache-2.0
"""What a project applies its series to: trees that derivations name, and wheels of locked sets.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from derive.content import key_path
from derive.derivations import steps
from derive.derivations.declarations import PatchDecl, WheelsDecl
from derive.derivations.evaluate import Evaluator
from derive.derivations.model import DEBIAN_ARCHITECTURE, Derivation, Platform
from derive.derivations.scope import Declared, Scope
from derive.lock.documents import PythonLock, WheelEntry, target_name


@dataclass(frozen=True, slots=True)
class TreeSource:
    """The tree of a declared derivation."""

    name: str


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A locked wheel, unpacked."""

    entry: WheelEntry

    @property
    def name(self) -> str:
        """The wheel's file name, which tells its platforms apart."""
        return self.entry.file


Source: TypeAlias = TreeSource | WheelSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One place at which a series is applied.

    ``step`` is what the step is called that does it, ``place`` the file and key that say so. ``sources`` are the trees
    that one series must fit: of a wheel those of all platforms, the build platform's first. There is at least one.
    """

    step: str
    place: str
    sources: tuple[Source, ...]

    @property
    def source(self) -> Source:
        """The tree that the series is edited on."""
        return self.sources[0]


def uses(scope: Scope, series: str) -> tuple[Use, ...]:
    """Return every place at which a series is applied, in the order of the files; nothing where there is none."""
    return tuple(use for name, one in scope.declared.items() for use in _uses(scope, series, name, one))


def source_derivation(scope: Scope, source: Source) -> Derivation:
    """Return the derivation of a source; one that is declared is meant for the build platform.

    Raises:
        InputErrors: everything in its closure that cannot be evaluated.
    """
    match source:
        case TreeSource(name):
            return Evaluator(scope).derivation(name, scope.project.settings.build_platform)
        case WheelSource(entry):
            return steps.unpack_wheel(entry)
        case _:
            assert_never(source)


def _uses(scope: Scope, series: str, name: str, declared: Declared) -> Iterator[Use]:
    declaration, place = declared.declaration, f"{declared.file}: {name}"
    if isinstance(declaration, PatchDecl) and declaration.series == series:
        yield Use(step=name, place=place, sources=(TreeSource(declaration.source),))
    elif isinstance(declaration, WheelsDecl):
        for wheel in [wheel for wheel, applied in declaration.patches.items() if applied == series]:
            entries = _entries(scope, declaration, wheel)
            if entries:
                where = f"{place}.{key_path(('patches', wheel))}"
                sources = tuple(WheelSource(entry) for entry in entries)
                yield Use(step=steps.patched_wheel(entries[0]), place=where, sources=sources)


def _entries(scope: Scope, decl: WheelsDecl, wheel: str) -> tuple[WheelEntry, ...]:
    """Return the wheels of a project for one Python: one that runs on every platform counts once."""
    lock = scope.locks[decl.set]
    assert isinstance(lock, PythonLock)
    found: dict[str, WheelEntry] = {}
    for architecture in _architectures(scope.project.settings.build_platform):
        if target_name(decl.python, architecture) in lock.targets:
            found |= {one.file: one for one in lock.target(decl.python, architecture) if one.name == wheel}
    return tuple(found.values())


def _architectures(first: Platform) -> list[str]:
    """Return every architecture, that of one platform first."""
    platforms = sorted(DEBIAN_ARCHITECTURE, key=lambda one: (one != first, one))
    return [DEBIAN_ARCHITECTURE[platform] for platform in platforms]
