# SPDX-License-Identifier: Apache-2.0
"""Judges of the rules that bind a shape to its cabling: nodes, sizes of parallelism, transport, capabilities.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from derive.errors import Problem, expected_got
from derive.fabric.abstract import is_abstract
from derive.fabric.cabling import NODES
from derive.fabric.environment import PROGRAM
from derive.fabric.examples import example_file
from derive.fabric.rule import RuleInput
from derive.fabric.transports import Transport
from derive.words import near

if TYPE_CHECKING:
    from derive.canonical import Json

Judge: TypeAlias = "Callable[[RuleInput], Iterator[Problem]]"

EXPERT = "enable-expert-parallel"
OTHER_SIZES = (
    "pipeline-parallel-size",
    "data-parallel-size",
    "decode-context-parallel-size",
    "prefill-context-parallel-size",
)
CUSTOM = "disable-custom-all-reduce"


def listed(judge: Judge) -> Callable[[RuleInput], list[Problem]]:
    """Turn a judge that yields into one that returns a list."""
    return lambda given: list(judge(given))


def transport_of(given: RuleInput) -> Transport | None:
    """Return the shape's transport, or None where there is none of that name, which a rule of its own says."""
    return given.fabric.transports.get(given.resolved.transport)


def joined(given: RuleInput) -> Transport | None:
    """Return the shape's transport where its ranks are joined by one: vLLM, and a transport with collectives."""
    transport = transport_of(given)
    return transport if transport is not None and transport.collectives and is_vllm(given) else None


def is_vllm(given: RuleInput) -> bool:
    """Say whether the served program is vLLM."""
    return given.resolved.schema == PROGRAM


def cabling(given: RuleInput) -> Iterator[Problem]:
    """Judge whether the site is cabled as the shape is."""
    if given.resolved.cabling != given.site.cabling:
        yield Problem(
            where=given.at("cabling"),
            message="the site is cabled otherwise",
            detail=expected_got(given.resolved.cabling, f"{given.site.cabling} ({given.site_file}: cabling)"),
            hint=f"name a shape for a {given.site.cabling}, or --site {example_file(given.resolved.cabling)}",
        )


def nodes(given: RuleInput) -> Iterator[Problem]:
    """Judge whether the shape has as many nodes as its cabling joins."""
    wanted = NODES[given.resolved.cabling]
    if given.resolved.nodes != wanted:
        detail = expected_got(f"{wanted} for {given.resolved.cabling}", given.resolved.nodes)
        yield Problem(where=given.at("nodes"), message="another number of nodes than the cabling joins", detail=detail)


def transport_known(given: RuleInput) -> Iterator[Problem]:
    """Judge whether there is such a transport."""
    name, known = given.resolved.transport, sorted(given.fabric.transports)
    if name not in known:
        hint = near(name, known) or f"known: {', '.join(known)}"
        yield Problem(where=given.at("transport"), message=f"no transport is called {name}", hint=hint)


def transport_cabling(given: RuleInput) -> Iterator[Problem]:
    """Judge whether the transport works over the shape's cabling."""
    transport = transport_of(given)
    if transport is not None and given.resolved.cabling not in transport.cablings:
        yield Problem(
            where=given.at("transport"),
            message=f"{transport.name} does not work over this cabling",
            detail=expected_got(" or ".join(transport.cablings), given.resolved.cabling),
        )


def collectives(given: RuleInput) -> Iterator[Problem]:
    """Judge whether ranks that must exchange can."""
    transport = transport_of(given)
    if transport is not None and not transport.collectives and is_vllm(given) and given.resolved.nodes > 1:
        message = f"{given.resolved.nodes} ranks of vLLM, and a transport without collectives"
        yield Problem(where=given.at("transport"), message=message)


def common_stripes(given: RuleInput) -> Iterator[Problem]:
    """Judge whether all cables have as many paths, where an engine of small collectives stripes over them."""
    transport = joined(given)
    if transport is None or transport.engine is None or is_abstract(given.site):
        return
    counts = [len(cable.paths) for cable in given.site.cables]
    for index, cable in enumerate(given.site.cables):
        if len(cable.paths) != counts[0]:
            yield Problem(
                where=given.of_site.at_cable(index, "paths"),
                message=f"{transport.name} stripes over as many paths of every cable",
                detail=expected_got(
                    f"{counts[0]}, as between {given.of_site.between(given.site.cables[0])}", len(cable.paths)
                ),
            )


def enough_stripes(given: RuleInput) -> Iterator[Problem]:
    """Judge whether every cable has as many paths as the transport must have."""
    transport = joined(given)
    if transport is None or transport.stripes is None or is_abstract(given.site):
        return
    for index, cable in enumerate(given.site.cables):
        if len(cable.paths) < transport.stripes:
            yield Problem(
                where=given.of_site.at_cable(index, "paths"),
                message=f"{transport.name} needs {transport.stripes} paths in every cable",
                detail=expected_got(transport.stripes, len(cable.paths)),
            )


def planned(given: RuleInput) -> Iterator[Problem]:
    """Judge whether a transport that is only planned is kept from being launched."""
    transport = transport_of(given)
    if transport is not None and transport.planned is not None and given.resolved.promotion.launch_enabled:
        yield Problem(
            where=given.at("transport"),
            message=f"{transport.name} is planned, and the shape may be launched",
            detail=(f"because   {transport.planned}",),
        )


def equals_nodes(argument: str) -> Judge:
    """Return the judge of an option that must be the number of nodes."""

    def judge(given: RuleInput) -> Iterator[Problem]:
        if joined(given) is not None:
            yield from _is_nodes(given, f"arguments.{argument}", given.resolved.arguments.get(argument))

    return judge


def draft_equals_nodes(given: RuleInput) -> Iterator[Problem]:
    """Judge the size over which drafts are split."""
    speculative = given.resolved.arguments.get("speculative-config")
    if joined(given) is not None and isinstance(speculative, Mapping):
        key = "draft_tensor_parallel_size"
        yield from _is_nodes(given, f"arguments.speculative-config.{key}", speculative.get(key))


def _is_nodes(given: RuleInput, path: str, got: Json) -> Iterator[Problem]:
    if given.resolved.cabling != given.site.cabling:  # which is told by itself, and is the cause
        return
    count = len(given.site.nodes)
    if got != count or got is True:
        detail = expected_got(f"{count}, as the site has nodes", "no such option" if got is None else got)
        yield Problem(
            where=given.at(path), message=f"{path.rpartition('.')[2]} is not the number of nodes", detail=detail
        )


def expert_parallel(given: RuleInput) -> Iterator[Problem]:
    """Judge whether experts stay split within tensor parallelism."""
    if joined(given) is not None and given.resolved.arguments.get(EXPERT) not in (None, False):
        yield Problem(where=given.at(f"arguments.{EXPERT}"), message=f"{EXPERT} is on")


def other_sizes(given: RuleInput) -> Iterator[Problem]:
    """Judge whether tensor parallelism is the only one."""
    if joined(given) is None:
        return
    for argument in OTHER_SIZES:
        got = given.resolved.arguments.get(argument, 1)
        if got != 1 or got is True:
            yield Problem(
                where=given.at(f"arguments.{argument}"), message=f"{argument} is not 1", detail=expected_got(1, got)
            )


def custom_all_reduce(given: RuleInput) -> Iterator[Problem]:
    """Judge whether vLLM's own all-reduce is off under NCCL alone, and on where an engine takes its place."""
    transport = joined(given)
    if transport is None or transport.custom_all_reduce is None:
        return
    got = given.resolved.arguments.get(CUSTOM)
    wanted = transport.custom_all_reduce == "disabled"
    if (got is True) != wanted:
        said = "true" if got is True else "false" if got is False else "no such option"
        yield Problem(
            where=given.at(f"arguments.{CUSTOM}"),
            message=f"{transport.name} has it {transport.custom_all_reduce}",
            detail=expected_got("true" if wanted else "no such option", said),
        )


def capability(given: RuleInput) -> Iterator[Problem]:
    """Judge whether the shape says that it needs what its transport needs."""
    transport = joined(given)
    said = {need.capability for need in given.resolved.needs}
    for name in transport.needs if transport is not None else ():
        if name not in said:
            message = f"{given.resolved.transport} needs the capability {name}, and the shape does not say so"
            yield Problem(where=given.at("transport"), message=message)


def other_capability(given: RuleInput) -> Iterator[Problem]:
    """Judge whether the shape needs the collectives of its own transport alone."""
    transport = transport_of(given)
    if transport is None:
        return
    owners = {name: one.name for one in given.fabric.transports.values() for name in one.own_needs}
    for need in given.resolved.needs:
        if need.capability in owners and need.capability not in transport.own_needs:
            yield Problem(
                where=given.at("needs"),
                message=f"needs {need.capability}, which is for {owners[need.capability]}, and has {transport.name}",
            )


def setting_capability(given: RuleInput) -> Iterator[Problem]:
    """Judge whether variables that only some libraries read come with the need for those."""
    said = {need.capability for need in given.resolved.needs}
    for name in sorted(given.resolved.environment.keys() & given.fabric.tunable.keys()):
        needed = given.fabric.tunable[name].needs
        if needed is not None and needed not in said:
            yield Problem(
                where=given.at(f"environment.{name}"),
                message=f"{name} is read with the capability {needed} alone, and the shape does not need it",
            )


def ports(given: RuleInput) -> Iterator[Problem]:
    """Judge whether the service and the ranks' meeting place have a port each."""
    if given.resolved.master_port is not None and given.resolved.master_port == given.resolved.port:
        message = f"port {given.resolved.port} is the service's and the ranks' meeting place"
        yield Problem(where=given.at("service.master-port"), message=message)
