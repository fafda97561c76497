# SPDX-License-Identifier: Apache-2.0
"""Judges of the rules about variables and about backends of kernels: what must be set, may not be, or must agree.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from derive.errors import Problem, expected_got
from derive.fabric.cabling import NODES
from derive.fabric.environment import DEVICES, GID_INDEX, HOST_ADDRESS, SOCKET_INTERFACES, TRAFFIC_CLASS
from derive.fabric.rule import RuleInput
from derive.fabric.shape_rules import is_vllm, joined
from derive.fabric.transports import FILE, KernelBackend
from derive.fabric.tuning import CHANNELS, channel_problems, value_problems

if TYPE_CHECKING:
    from derive.canonical import Json

_ABSENT = "no such variable"


def required(given: RuleInput) -> Iterator[Problem]:
    """Judge whether every variable that the transport requires has the value that it requires."""
    transport = joined(given)
    for name, (value, key) in transport.settings.items() if transport is not None else ():
        got = given.resolved.environment.get(name)
        if got != value:
            wanted = f"{_text(value)}, as {FILE} says: {key}"
            yield Problem(
                where=given.at(f"environment.{name}"),
                message=f"{given.resolved.transport} requires {name}",
                detail=expected_got(wanted, _text(got)),
            )


def off(given: RuleInput) -> Iterator[Problem]:
    """Judge whether variables that would turn other collectives on are absent, or say no."""
    transport = joined(given)
    for name, value in transport.off.items() if transport is not None else ():
        got = given.resolved.environment.get(name)
        if got is not None and got != value:
            yield Problem(
                where=given.at(f"environment.{name}"),
                message=f"{given.resolved.transport} leaves {name} off",
                detail=expected_got(f"{_text(value)}, or {_ABSENT}", _text(got)),
            )


def forbidden(given: RuleInput) -> Iterator[Problem]:
    """Judge whether nothing replaces NCCL's own choice of rings."""
    transport = joined(given)
    for name in transport.forbidden_variables if transport is not None else ():
        if name in given.resolved.environment:
            yield Problem(
                where=given.at(f"environment.{name}"),
                message=f"{given.resolved.transport} forbids {name}",
                detail=expected_got(_ABSENT, _text(given.resolved.environment[name])),
            )


def channels(given: RuleInput) -> Iterator[Problem]:
    """Judge whether rings have a number of channels that is one, and one that the cabling allows."""
    transport = joined(given)
    if transport is None or given.resolved.cabling not in transport.channels:
        return
    places = {name: given.at(f"environment.{name}") for name in CHANNELS}
    allowed = transport.channels[given.resolved.cabling]
    yield from channel_problems(given.resolved.environment, places, allowed)


def engines(given: RuleInput) -> Iterator[Problem]:
    """Judge whether the only variables of an engine of small collectives are those of the transport's own."""
    transport = joined(given)
    if transport is None:
        return
    for engine in given.fabric.engines.values():
        if engine.name == transport.engine:
            continue
        for name in sorted(given.resolved.environment):
            if engine.owns(name) and name not in transport.off:
                yield Problem(
                    where=given.at(f"environment.{name}"),
                    message=f"{name} is a variable of {engine.name}, and the transport is {transport.name}",
                    detail=expected_got(_ABSENT, _text(given.resolved.environment[name])),
                )


def tuned(given: RuleInput) -> Iterator[Problem]:
    """Judge whether tuned variables are what they may be, and from a profile for as many nodes."""
    environment = given.resolved.environment
    places = {name: given.at(f"environment.{name}") for name in environment}
    yield from value_problems(environment, places, given.fabric, nodes=given.resolved.nodes)
    wanted = NODES[given.resolved.cabling]
    profiles = {one.file: one for one in given.fabric.tunings.values()}
    for file in sorted({origin.file for origin in given.resolved.origins.values()} & profiles.keys()):
        if profiles[file].nodes != wanted:
            yield Problem(
                where=given.at("tuning"),
                message=f"the tuning profile {profiles[file].name} is for {profiles[file].nodes} nodes",
                detail=expected_got(f"one for {wanted} nodes", f"{file}: nodes = {profiles[file].nodes}"),
            )


def of_the_site(given: RuleInput) -> Iterator[Problem]:
    """Judge whether the shape leaves to the site what differs by node."""
    if joined(given) is None:
        return
    names = {HOST_ADDRESS, DEVICES, GID_INDEX, TRAFFIC_CLASS, *SOCKET_INTERFACES}
    for engine in given.fabric.engines.values():
        names |= {engine.peers, engine.gid_index, engine.traffic_class}
    for name in sorted(names & given.resolved.environment.keys()):
        message = f"{name} differs by node: a site says it, and no shape"
        yield Problem(where=given.at(f"environment.{name}"), message=message)


def _backend(given: RuleInput) -> KernelBackend | None:
    name = given.resolved.kernel_backend
    return given.fabric.kernel_backends.get(name) if is_vllm(given) and name is not None else None


def kernel_arguments(given: RuleInput) -> Iterator[Problem]:
    """Judge whether options, the drafter's too, name the shape's backend of kernels."""
    backend = _backend(given)
    if backend is None:
        return
    speculative = given.resolved.arguments.get("speculative-config")
    sides: list[tuple[str, Mapping[str, str], Mapping[str, Json]]] = [
        ("arguments", backend.arguments, given.resolved.arguments)
    ]
    if isinstance(speculative, Mapping):
        sides.append(("arguments.speculative-config", backend.draft_arguments, speculative))
    for place, wanted, got in sides:
        for name, value in wanted.items():
            if got.get(name) != value:
                yield Problem(
                    where=given.at(f"{place}.{name}"),
                    message=f"{name} does not agree with the kernel backend {backend.name}",
                    detail=expected_got(value, got.get(name, "no such option")),
                )


def kernel_environment(given: RuleInput) -> Iterator[Problem]:
    """Judge whether variables name the shape's backend of kernels."""
    backend = _backend(given)
    if backend is None:
        return
    environment = given.resolved.environment
    for name, value in {**backend.settings, **backend.off}.items():
        got = environment.get(name)
        if got != value and not (got is None and name in backend.off):
            yield Problem(
                where=given.at(f"environment.{name}"),
                message=f"{name} does not agree with the kernel backend {backend.name}",
                detail=expected_got(_text(value), _text(got)),
            )


def kernel_cache(given: RuleInput) -> Iterator[Problem]:
    """Judge whether kernels that are compiled on a node are kept where the container may write."""
    backend = _backend(given)
    if backend is None or backend.cache is None:
        return
    got = given.resolved.environment.get(backend.cache)
    parts = (got or "").split("/")
    if got is None or parts[:2] != ["", "cache"] or not all(parts[2:]) or len(parts) < 3 or ".." in parts:
        yield Problem(
            where=given.at(f"environment.{backend.cache}"),
            message="compiled kernels are not kept below /cache/",
            detail=expected_got("a folder below /cache/", _text(got)),
        )


def kernel_capability(given: RuleInput) -> Iterator[Problem]:
    """Judge whether the shape says that it needs what its backend of kernels needs."""
    backend = _backend(given)
    said = {need.capability for need in given.resolved.needs}
    for name in backend.needs if backend is not None else ():
        if name not in said:
            message = f"the kernel backend {given.resolved.kernel_backend} needs {name}, and the shape does not say so"
            yield Problem(where=given.at("kernel-backend"), message=message)


def _text(value: str | None) -> str:
    return _ABSENT if value is None else value or "the empty text"
