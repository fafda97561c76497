# SPDX-License-Identifier: Apache-2.0
"""What declarations of kernels mean: sources, units, a host's cache, and what can be wrong with them.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from derive.derivations import steps
from derive.derivations.declarations import KernelsDecl, KernelSourcesDecl
from derive.derivations.model import Derivation, Platform
from derive.derivations.scope import Names, Scope, absent
from derive.errors import InputErrors, Problem, expected_got
from derive.kernels.load import FOLDER, source_path
from derive.kernels.steps import MACHINE, device_step, host_step, index_step, source_step
from derive.kernels.units import Unit, units_of


def kernel_problems(scope: Scope, known: Names, decl: KernelsDecl | KernelSourcesDecl, where: str) -> Iterator[Problem]:
    """Yield what is wrong with the kernels and architectures that a declaration names."""
    for index, name in enumerate(decl.kernels):
        place = f"{where}.kernels[{index}]"
        if name not in known.kernels:
            yield absent(place, "kernel under kernels/", name, known.kernels)
        elif name in decl.kernels[:index]:
            yield Problem(where=place, message=f"{name} a second time")
    if isinstance(decl, KernelSourcesDecl) or known.kernels - scope.kernels.keys():
        return  # of a kernel whose file is wrong, nothing else is known
    names = [name for name in cached(scope, decl) if name in scope.kernels]
    if not names and not decl.kernels:
        yield Problem(where=where, message="no kernel is for a cache", hint="name some with the key kernels")
    made = {gpu for name in names for gpu in scope.kernels[name].architectures}
    for platform, gpus in decl.gpus.items():
        for index, gpu in enumerate(gpus):
            if names and gpu not in made:
                place = f'{where}.gpus."{platform}"[{index}]'
                detail = expected_got(" or ".join(sorted(made)), gpu)
                yield Problem(where=place, message="no kernel of this cache is for this architecture", detail=detail)


def cached(scope: Scope, decl: KernelsDecl) -> tuple[str, ...]:
    """Return the kernels of a cache: those that it names, or else all that are for caches."""
    return decl.kernels or tuple(name for name, kernel in sorted(scope.kernels.items()) if kernel.cache)


def sources(scope: Scope, name: str, decl: KernelSourcesDecl) -> Derivation:
    """Return the tree of kernels' sources."""
    files = {}
    for path, data in scope.project.below(FOLDER).items():
        folder, _, inner = path.partition("/")
        wanted = not decl.kernels or folder in decl.kernels or folder not in scope.kernels
        if inner and wanted and not any(fnmatchcase(path, pattern) for pattern in decl.exclude):
            files[path] = data
    return source_step(name, files)


def compiler(scope: Scope) -> KernelsDecl:
    """Return the declaration that says what kernels are compiled with.

    Raises:
        InputErrors: when none does, or several do not agree.
    """
    found = {
        f"{declared.file}: {name}": declared.declaration
        for name, declared in scope.declared.items()
        if isinstance(declared.declaration, KernelsDecl)
    }
    if len({(decl.root, decl.python) for decl in found.values()}) == 1:
        return next(iter(found.values()))
    message = "what kernels are compiled in is not said" if not found else "kernels are compiled in several roots"
    detail = tuple(f"{where}: {decl.root}, Python {decl.python}" for where, decl in found.items())
    hint = 'declare a derivation with builder = "kernels", or let all have one root and one Python'
    raise InputErrors.one(message, where="derivations/", detail=detail, hint=hint)


def units(scope: Scope, kernels: Sequence[str], gpus: Sequence[str] | None = None) -> list[Unit]:
    """Return what is compiled of some kernels, for some architectures or for all of each kernel's.

    Raises:
        InputErrors: for kernels that are not there, and architectures that none of them is for.
    """
    problems = [absent(FOLDER, "kernel", name, scope.kernels) for name in kernels if name not in scope.kernels]
    found = [unit for name in kernels if name in scope.kernels for unit in units_of(name, scope.kernels[name])]
    known = sorted({unit.gpu for unit in found})
    for gpu in gpus or ():
        if gpu not in known and not problems:
            detail = expected_got(" or ".join(known), gpu)
            problems.append(Problem(where=FOLDER, message="no kernel is for this architecture", detail=detail))
    if problems:
        raise InputErrors(problems)
    return [unit for unit in found if gpus is None or unit.gpu in gpus]


def device(scope: Scope, unit: Unit, root: Derivation, decl: KernelsDecl) -> Derivation:
    """Return the step that compiles a unit for its GPU."""
    source = scope.project.files[source_path(unit.kernel)]
    return device_step(
        unit, source, root, scope.project.settings.build_platform, python=decl.python, timeout_s=decl.timeout
    )


def unit_named(scope: Scope, name: str) -> Unit:
    """Return the unit of a name; raises InputErrors where there is none."""
    kernel = name.partition("/")[0]
    found = {unit.name: unit for unit in units(scope, [kernel])}
    if name not in found:
        raise InputErrors([absent(f"{FOLDER}/{kernel}/kernel.toml", "unit", name, found)])
    return found[name]


def part(scope: Scope, unit: Unit, root: Derivation, decl: KernelsDecl, host: Platform | None) -> Derivation:
    """Return the step that compiles a unit for its GPU or, for a platform, what of it a host loads."""
    compiled = device(scope, unit, root, decl)
    if host is None:
        return compiled
    return host_step(
        compiled, root, MACHINE[host], scope.project.settings.build_platform, python=decl.python, timeout_s=decl.timeout
    )


def cache(scope: Scope, name: str, where: str, decl: KernelsDecl, root: Derivation, host: Platform) -> Derivation:
    """Return the cache that TileLang reads on a host.

    Raises:
        InputErrors: when the declaration has no architectures for the host.
    """
    gpus = next((found for platform, found in decl.gpus.items() if platform == host), None)
    if gpus is None:
        detail = expected_got(host, ", ".join(decl.gpus))
        message = f"{name} is needed for {host}, for which it names no GPU architectures"
        raise InputErrors.one(message, where=f"{where}.gpus", detail=detail)
    devices = [(unit, device(scope, unit, root, decl)) for unit in units(scope, cached(scope, decl), gpus)]
    parts = [("index", "", index_step(f"{name} index", devices, host))]
    parts += [(unit.name, "", part(scope, unit, root, decl, host)) for unit, _ in devices]
    return steps.composed(name, parts, {})
