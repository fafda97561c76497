# SPDX-License-Identifier: Apache-2.0
"""The checks of the fabric: that its files can be read, and every rule of it for every shape and its site.

Core: no IO.

The rules are those of ``derive.fabric.rules``, as they are; a site that breaks one of its own does not load, and every
rule of that site is then unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from derive.doctor.check import Answer, Check, Unknown, each_shape
from derive.fabric.rule import Rule, RuleInput
from derive.fabric.rules import RULES

if TYPE_CHECKING:
    from derive.doctor.case import Case
    from derive.recipes.resolved import Resolved

_WHAT: Mapping[str, str] = {
    "fabric.node-count": "a triangle has three nodes and a ring four",
    "fabric.ranks": "ranks are numbered in the order of the nodes, and the first is the head",
    "fabric.names-distinct": "every node has a name of its own",
    "fabric.management-addresses": "every node has a management address of its own",
    "fabric.ssh-hosts": "every node is reached by SSH under a host of its own",
    "fabric.peers": "every pair of neighbours has a cable, and no other pair",
    "fabric.stripes": "a cable has one path or two",
    "fabric.ports": "no two cables are in one cage",
    "fabric.device-one-peer": "an RDMA device reaches one peer",
    "fabric.interface-one-path": "an interface has the address of one path",
    "fabric.subnets": "a path has a /24 of its own",
    "fabric.addresses": "both ends of a path have an address in its subnet",
    "fabric.cabling": "the site is cabled as the shape asks",
    "fabric.nodes": "the shape has a rank for every node",
    "fabric.transport": "the transport is a known one",
    "fabric.transport-cabling": "the transport is for the shape's cabling",
    "fabric.collectives": "a shape with tensor parallelism has collectives",
    "fabric.common-stripes": "small collectives find as many paths in every cable",
    "fabric.stripes-needed": "cables have as many paths as the transport needs",
    "fabric.planned": "a transport that is only planned is not launched",
    "fabric.tp-equals-nodes": "tensor-parallel-size is the number of nodes",
    "fabric.nnodes-equals-nodes": "nnodes is the number of nodes",
    "fabric.draft-tp-equals-nodes": "the drafter is split over all nodes",
    "fabric.expert-parallel": "no expert parallelism",
    "fabric.other-parallelism": "no parallelism but the tensors'",
    "fabric.custom-all-reduce": "vLLM's own all-reduce is as the transport wants it",
    "fabric.transport-capability": "the shape needs the transport's capability",
    "fabric.other-transport-capability": "the shape needs no other transport's capability",
    "fabric.setting-capability": "settings that only a patched library reads need its capability",
    "fabric.master-port": "ranks meet at another port than the service's",
    "fabric.required-settings": "everything that the transport requires is set",
    "fabric.off-settings": "collectives that the transport has not are off",
    "fabric.forbidden-settings": "nothing replaces the rings along the cables",
    "fabric.channels": "NCCL has a number of channels that the cabling allows",
    "fabric.engine-variables": "no engine of small collectives but the transport's is set up",
    "fabric.tuned-settings": "tuned limits fit their units and buffers",
    "fabric.site-variables": "no recipe sets what the site says",
    "fabric.kernel-arguments": "options name the kernels of the shape's backend",
    "fabric.kernel-environment": "variables name the kernels of the shape's backend",
    "fabric.kernel-cache": "compiled kernels are kept below /cache/",
    "fabric.kernel-capability": "the shape needs the capabilities of its kernel backend",
}
"""What holds where a rule is kept; a rule that is new says it by its reason."""


def _readable(case: Case) -> Iterator[Answer]:
    yield from case.places.fabric_problems


def _judge(rule: Rule) -> Callable[[Case], Iterator[Answer]]:
    """Return the judge of a rule: at the site in use where it is cabled as the shape is, else at the example."""

    def judged(case: Case, resolved: Resolved) -> Iterator[Answer]:
        fabric, site = case.places.fabric, case.site_of(resolved)
        if fabric is None:
            yield Unknown(where="fabric/transports.toml", reason="fabric/ cannot be read: see fabric.readable")
        elif site is None:
            where = f"fabric/examples/{resolved.cabling}.toml"
            yield Unknown(where=where, reason="there is no site to judge a shape at: see site.examples")
        else:
            yield from rule.judge(
                RuleInput(
                    resolved=resolved,
                    site=site.site,
                    fabric=fabric,
                    site_file=site.file,
                    cable_numbers=site.cable_numbers,
                )
            )

    shapes = each_shape(judged)

    def all_of_it(case: Case) -> Iterator[Answer]:
        if case.places.site is None and case.facts.site is not None:
            yield Unknown(where=case.facts.site.file, reason="the site does not load: see site.loads")
        yield from shapes(case)

    return all_of_it


def _check(rule: Rule) -> Check:
    return Check(
        id=rule.id,
        severity=rule.severity,
        what=_WHAT.get(rule.id, rule.why),
        why=rule.why,
        how="for every shape, at the site in use where that is cabled so, else at the example of the cabling; "
        "on paper: no machine is asked",
        fix=rule.fix,
        place="recipes/*.toml fabric/ and the site's file",
        judge=_judge(rule),
        over="shapes",
    )


CHECKS: tuple[Check, ...] = (
    Check(
        id="fabric.readable",
        severity="error",
        what="transports, settings and tuning profiles can be read, and go together",
        why="what a transport requires and what may be tuned is said nowhere else",
        how="fabric/transports.toml, fabric/settings.toml and fabric/tuning/*.toml key by key",
        fix="see docs/fabric.md",
        place="fabric/",
        judge=_readable,
    ),
    *map(_check, RULES),
)
