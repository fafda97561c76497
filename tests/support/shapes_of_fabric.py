# SPDX-License-Identifier: Apache-2.0
"""Shapes that break no rule of the fabric, to be broken one at a time.

Edge: reads the checkout's recipes and fabric.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from derive.canonical import Json
from derive.fabric import transports
from derive.fabric.catalogue import load_fabric
from derive.fabric.rule import RuleInput
from derive.fabric.site import Cable, End, Node, Path, Site
from derive.fabric.transports import Fabric
from derive.recipes.load import load_recipe
from derive.recipes.resolve import resolve
from derive.recipes.resolved import Need, Resolved
from support.fabrics import example_site, launching


@cache
def fabric() -> Fabric:
    """Return the checkout's transports and tuning profiles."""
    return load_fabric(launching())


@cache
def shape(recipe: str = "ds41f", name: str = "tp4-ring") -> Resolved:
    """Return a shape of a recipe of the checkout."""
    return resolve(load_recipe(launching(), recipe), name)


def judged(resolved: Resolved, site: Site | None = None, own: Fabric | None = None) -> RuleInput:
    """Return a shape at a site, by default the example of its cabling."""
    return RuleInput(
        resolved=resolved, site=site or example_site(resolved.cabling), fabric=own or fabric(), site_file="site.toml"
    )


def over(transport: str, tuning: str, resolved: Resolved | None = None) -> Resolved:
    """Return a shape that goes over another transport, with all that the transport gives and needs."""
    base = resolved or shape()
    dropped = transports.settings(fabric(), base.transport, "tp4" if base.nodes == 4 else "tp3", "")
    environment = {key: value for key, value in base.environment.items() if key not in dropped}
    given = transports.settings(fabric(), transport, tuning, "")
    environment |= {key: one.value for key, one in given.items()}
    arguments = {key: value for key, value in base.arguments.items() if key != "disable-custom-all-reduce"}
    arguments |= transports.arguments(fabric(), transport, "")
    needs = (*base.needs, *transports.needs(fabric(), transport, environment, ""))
    return replace(base, transport=transport, environment=environment, arguments=arguments, needs=needs)


def on_tilelang(resolved: Resolved) -> Resolved:
    """Return a shape whose kernels are TileLang's."""
    backend = fabric().kernel_backends["tilelang"]
    speculative = resolved.arguments["speculative-config"]
    assert isinstance(speculative, Mapping)
    return replace(
        resolved,
        kernel_backend="tilelang",
        arguments={
            **resolved.arguments,
            **backend.arguments,
            "speculative-config": {**speculative, **backend.draft_arguments},
        },
        environment={**resolved.environment, **backend.settings},
        needs=(*resolved.needs, *transports.kernel_needs(fabric(), "tilelang")),
    )


def with_argument(resolved: Resolved, name: str, value: Json) -> Resolved:
    """Return a shape with another value of an option; None removes it."""
    others = {key: one for key, one in resolved.arguments.items() if key != name}
    return replace(resolved, arguments=others if value is None else {**others, name: value})


def with_variable(resolved: Resolved, name: str, value: str | None) -> Resolved:
    """Return a shape with another value of a variable; None removes it."""
    others = {key: one for key, one in resolved.environment.items() if key != name}
    return replace(resolved, environment=others if value is None else {**others, name: value})


def without_need(resolved: Resolved, *names: str) -> Resolved:
    """Return a shape that does not say that it needs some capabilities."""
    return replace(resolved, needs=tuple(need for need in resolved.needs if need.capability not in names))


def with_need(resolved: Resolved, name: str) -> Resolved:
    """Return a shape that needs one capability more."""
    return replace(resolved, needs=(*resolved.needs, Need(capability=name, because="a test")))


def with_node(site: Site, at: int, /, **changes: object) -> Site:
    """Return a site with a node changed."""
    nodes: list[Node] = list(site.nodes)
    nodes[at] = replace(nodes[at], **changes)  # type: ignore[arg-type]
    return replace(site, nodes=tuple(nodes))


def with_cable(site: Site, index: int, **changes: object) -> Site:
    """Return a site with a cable changed."""
    cables: list[Cable] = list(site.cables)
    cables[index] = replace(cables[index], **changes)  # type: ignore[arg-type]
    return replace(site, cables=tuple(cables))


def with_path(site: Site, cable: int, path: int, **changes: object) -> Site:
    """Return a site with a path of a cable changed."""
    paths: list[Path] = list(site.cables[cable].paths)
    paths[path] = replace(paths[path], **changes)  # type: ignore[arg-type]
    return with_cable(site, cable, paths=tuple(paths))


def with_end(site: Site, cable: int, path: int, side: int, **changes: object) -> Site:
    """Return a site with an end of a path changed."""
    ends: list[End] = list(site.cables[cable].paths[path].ends)
    ends[side] = replace(ends[side], **changes)  # type: ignore[arg-type]
    return with_path(site, cable, path, ends=tuple(ends))
