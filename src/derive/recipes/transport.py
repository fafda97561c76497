# SPDX-License-Identifier: Apache-2.0
"""What ``fabric/`` gives a shape: variables of its transport and tuning profile, options of its transport and kernels.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from derive.canonical import Json
from derive.errors import InputErrors, Problem
from derive.fabric import transports
from derive.fabric.transports import FILE, Fabric
from derive.recipes.merge import KeyPath, Tables, find
from derive.recipes.resolved import Need, Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Gift:
    """A value that a shape gets, and where it comes from; where ``tunable``, the recipe may say another."""

    path: KeyPath
    value: Json
    origin: Origin
    tunable: bool = False


def find_names(fabric: Fabric, tables: Tables, places: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the names that a shape uses and that ``fabric/`` has not; ``places`` says where the shape says each."""
    for key, find_one in (("transport", transports.find_transport), ("tuning", transports.find_tuning)):
        name = tables.get(key)
        if isinstance(name, str):
            try:
                find_one(fabric, name, places[key])
            except InputErrors as error:
                yield from error.problems()


def gifts(fabric: Fabric, tables: Tables) -> Iterator[Gift]:
    """Yield what a shape gets; its names have been looked up, and those that are not there give nothing."""
    transport, tuning, backend = (tables.get(key) for key in ("transport", "tuning", "kernel-backend"))
    vllm = find(tables, ("service", "program")) == "vllm"
    if isinstance(transport, str) and transport in fabric.transports:
        known = tuning if isinstance(tuning, str) and tuning in fabric.tunings else None
        for name, given in transports.settings(fabric, transport, known, "").items():
            yield Gift(path=("environment", name), value=given.value, origin=given.origin, tunable=given.tunable)
        for name, value in transports.arguments(fabric, transport, "").items() if vllm else ():
            origin = _origin("transport", f"transports.{transport}.custom-all-reduce", f"transport = {transport}")
            yield Gift(path=("arguments", name), value=value, origin=origin)
    if vllm and isinstance(backend, str) and backend in fabric.kernel_backends:
        yield from _kernels(fabric, backend, tables)


def _kernels(fabric: Fabric, backend: str, tables: Tables) -> Iterator[Gift]:
    chosen = fabric.kernel_backends[backend]
    speculative = ("arguments", "speculative-config")
    tabled: list[tuple[str, KeyPath, Mapping[str, str]]] = [
        ("arguments", ("arguments",), chosen.arguments),
        ("settings", ("environment",), chosen.settings),
    ]
    if find(tables, speculative) is not None:
        tabled.append(("draft-arguments", speculative, chosen.draft_arguments))
    for key, path, values in tabled:
        for name, value in values.items():
            origin = _origin("kernels", f"kernel-backends.{backend}.{key}.{name}", f"kernel-backend = {backend}")
            yield Gift(path=(*path, name), value=value, origin=replace(origin, needs=chosen.needs))


def typed_readers(fabric: Fabric, tables: Tables) -> Iterator[tuple[KeyPath, tuple[str, ...]]]:
    """Yield each variable of a shape that may be tuned about its transport, with the capabilities that read it."""
    environment, transport = find(tables, ("environment",)), tables.get("transport")
    chosen = fabric.transports.get(transport) if isinstance(transport, str) else None
    if chosen is None or not isinstance(environment, Mapping):
        return
    for name in environment:
        tunable = fabric.tunable.get(name)
        if tunable is not None and tunable.engine in (None, chosen.engine):
            yield ("environment", name), transports.readers(fabric, chosen.name, name)


def needs(fabric: Fabric, tables: Tables) -> tuple[Need, ...]:
    """Return the capabilities that a shape's transport, variables and kernels need."""
    environment = find(tables, ("environment",))
    variables = {name: str(value) for name, value in environment.items()} if isinstance(environment, Mapping) else {}
    backend = tables.get("kernel-backend")
    return (
        *transports.needs(fabric, str(tables["transport"]), variables, ""),
        *transports.kernel_needs(fabric, backend if isinstance(backend, str) else None),
    )


def _origin(rule: str, key: str, read: str) -> Origin:
    return Origin(file=FILE, key=key, rule=rule, inputs=(read,))
