# SPDX-License-Identifier: Apache-2.0
"""Transports as values: what each gives, requires and forbids, and what may be tuned about it.

Core: no IO. Standard library only.

Whoever resolves a shape asks ``settings`` for the variables that the shape's transport and tuning profile give,
``arguments`` for options that the transport decides, and ``needs`` for capabilities. A setting that is not tunable may
not stand in a recipe: it is the transport's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from derive.errors import InputErrors
from derive.fabric.site import Cabling
from derive.recipes.resolved import Need, Origin
from derive.words import near

Kind: TypeAlias = Literal["bytes", "count", "limit", "size", "protocol", "six-numbers"]
FILE = "fabric/transports.toml"
SETTINGS_FILE = "fabric/settings.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunable:
    """A variable that may be tuned. ``default`` says in words what it is unset; ``nodes`` where it is for that many.

    ``engine`` is the engine of small collectives that reads it, None where NCCL does; ``needs`` the capability without
    which nothing reads it.
    """

    name: str
    meaning: str
    default: str
    kind: Kind
    engine: str | None = None
    needs: str | None = None
    nodes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine of small collectives. ``variables`` are the beginnings of names that are its own."""

    name: str
    variables: tuple[str, ...]
    peers: str
    gid_index: str
    traffic_class: str

    def owns(self, variable: str) -> bool:
        """Say whether a variable is this engine's."""
        return variable.startswith(self.variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """One transport, with what is shared and, on rings, the rings' own merged in.

    ``settings`` are variables with the values that they must have, each with the key path in the transports' file that
    says so; ``off`` those that are absent or of that value. ``channels`` are the counts that may be chosen by cabling.
    ``own_needs`` are the capabilities that no other transport needs. ``stripes`` is the number of paths that each cable
    must have, None where one or two will do.
    """

    name: str
    doc: str
    cablings: tuple[Cabling, ...]
    collectives: bool
    engine: str | None
    needs: tuple[str, ...]
    own_needs: tuple[str, ...]
    settings: Mapping[str, tuple[str, str]]
    off: Mapping[str, str]
    forbidden_variables: tuple[str, ...]
    channels: Mapping[str, tuple[int, ...]]
    custom_all_reduce: Literal["enabled", "disabled"] | None
    stripes: int | None
    peers: Literal["cabled", "all"]
    planned: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """A profile of tuned settings. Each value has the key path in the profile's file that gives it, by scope."""

    name: str
    file: str
    doc: str
    nodes: int
    nccl: Mapping[str, str]
    engines: Mapping[str, Mapping[str, str]]
    transports: Mapping[str, Mapping[str, str]]

    def values(self, transport: Transport) -> Iterator[tuple[str, str, str]]:
        """Yield key path, variable and value of what is for a transport; a later one replaces an earlier."""
        if not transport.collectives:
            return
        yield from ((f"nccl.{name}", name, value) for name, value in self.nccl.items())
        if transport.engine is not None:
            for name, value in self.engines.get(transport.engine, {}).items():
                yield f"engines.{transport.engine}.{name}", name, value
        for name, value in self.transports.get(transport.name, {}).items():
            yield f"transports.{transport.name}.{name}", name, value


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelBackend:
    """What a shape's ``kernel-backend`` means: options of vLLM and of its drafter, variables, capabilities.

    ``cache`` is a variable that must name a folder below ``/cache/``.
    """

    name: str
    arguments: Mapping[str, str]
    draft_arguments: Mapping[str, str]
    settings: Mapping[str, str]
    off: Mapping[str, str]
    needs: tuple[str, ...]
    cache: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """Everything that ``fabric/`` says, but sites."""

    transports: Mapping[str, Transport]
    engines: Mapping[str, Engine]
    tunings: Mapping[str, Tuning]
    tunable: Mapping[str, Tunable]
    kernel_backends: Mapping[str, KernelBackend]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A variable's value and where it comes from. Only a tunable one may be given otherwise by a recipe."""

    value: str
    origin: Origin
    tunable: bool


def settings(fabric: Fabric, transport: str, tuning: str | None, where: str) -> dict[str, Given]:
    """Return the variables that a transport and a tuning profile give, sorted by name.

    ``where`` is the place that names them.

    Raises:
        InputErrors: when there is no such transport or profile. Whether the profile is for as many nodes is a rule's.
    """
    chosen = find_transport(fabric, transport, f"{where}.transport")
    profile = None if tuning is None else find_tuning(fabric, tuning, f"{where}.tuning")
    given = {
        name: Given(
            value=value,
            tunable=False,
            origin=Origin(
                file=FILE,
                key=key,
                rule="transport",
                inputs=(f"transport = {transport}",),
                doc=chosen.doc,
                needs=readers(fabric, transport, name),
            ),
        )
        for name, (value, key) in chosen.settings.items()
    }
    if profile is not None:
        for key, name, value in profile.values(chosen):
            origin = Origin(
                file=profile.file,
                key=key,
                rule="tuning",
                inputs=(f"tuning = {tuning}",),
                doc=_meaning(fabric, name),
                needs=readers(fabric, transport, name),
            )
            given[name] = Given(value=value, tunable=True, origin=origin)
    return dict(sorted(given.items()))


def readers(fabric: Fabric, transport: str, variable: str) -> tuple[str, ...]:
    """Return the capabilities that read a variable that a transport gives, or that may be tuned about it.

    Those are the transport's own for a variable of its engine, a patched library's where only that one knows it, and
    what all transports need for any other.
    """
    chosen = fabric.transports[transport]
    tunable = fabric.tunable.get(variable)
    if tunable is not None and tunable.needs is not None:
        return (tunable.needs,)
    if chosen.engine is not None and fabric.engines[chosen.engine].owns(variable):
        return chosen.own_needs
    return tuple(name for name in chosen.needs if name not in chosen.own_needs)


def arguments(fabric: Fabric, transport: str, where: str) -> dict[str, bool]:
    """Return the options of vLLM that a transport decides."""
    chosen = find_transport(fabric, transport, f"{where}.transport")
    return {"disable-custom-all-reduce": True} if chosen.custom_all_reduce == "disabled" else {}


def needs(fabric: Fabric, transport: str, variables: Mapping[str, str], where: str) -> tuple[Need, ...]:
    """Return the capabilities that a transport needs, and that variables need which only some libraries read."""
    chosen = find_transport(fabric, transport, f"{where}.transport")
    found = [
        Need(
            capability=name,
            because=f"{FILE}: {f'transports.{transport}' if name in chosen.own_needs else 'shared'}.needs",
        )
        for name in chosen.needs
    ]
    for name in sorted(variables):
        tunable = fabric.tunable.get(name)
        if tunable is not None and tunable.needs is not None:
            found.append(Need(capability=tunable.needs, because=f"{SETTINGS_FILE}: settings.{name}.needs"))
    return tuple(found)


def kernel_needs(fabric: Fabric, backend: str | None) -> tuple[Need, ...]:
    """Return the capabilities that a backend of kernels needs."""
    if backend is None or backend not in fabric.kernel_backends:
        return ()
    return tuple(
        Need(capability=name, because=f"{FILE}: kernel-backends.{backend}.needs")
        for name in fabric.kernel_backends[backend].needs
    )


def find_transport(fabric: Fabric, name: str, where: str) -> Transport:
    """Return a transport by name; raises InputErrors with the nearest name where there is none."""
    if name not in fabric.transports:
        raise _no("transport", name, fabric.transports, where)
    return fabric.transports[name]


def find_tuning(fabric: Fabric, name: str, where: str) -> Tuning:
    """Return a tuning profile by name; raises InputErrors with the nearest name where there is none."""
    if name not in fabric.tunings:
        raise _no("tuning profile", name, fabric.tunings, where)
    return fabric.tunings[name]


def _no(what: str, name: str, known: Mapping[str, object], where: str) -> InputErrors:
    hint = near(name, known) or f"known: {', '.join(sorted(known)) or 'none'}"
    return InputErrors.one(f"no {what} is called {name!r}", where=where, hint=hint)


def _meaning(fabric: Fabric, name: str) -> str:
    return fabric.tunable[name].meaning if name in fabric.tunable else ""
