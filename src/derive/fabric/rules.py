# SPDX-License-Identifier: Apache-2.0
"""The rules of the fabric as a table: those of the site, of the shape, and of what transports require.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.fabric import setting_rules as setting
from derive.fabric import shape_rules as shape
from derive.fabric.rule import Breach, Rule, RuleInput, SiteRule
from derive.fabric.shape_rules import listed
from derive.fabric.site_rules import SITE_RULES

if TYPE_CHECKING:
    from derive.fabric.site import Site
    from derive.fabric.transports import Fabric
    from derive.recipes.resolved import Resolved


def problems(
    resolved: Resolved,
    site: Site,
    fabric: Fabric,
    site_file: str = "site",
    cable_numbers: tuple[int, ...] | None = None,
) -> list[Breach]:
    """Return each breach of each rule, in the order of the table.

    ``site_file`` is what messages call the site's file; ``cable_numbers`` is as in ``SiteInput``.
    """
    given = RuleInput(resolved=resolved, site=site, fabric=fabric, site_file=site_file, cable_numbers=cable_numbers)
    return [Breach(rule=rule, problem=problem) for rule in RULES for problem in rule.judge(given)]


def _of_site(rule: SiteRule) -> Rule:
    return Rule(
        id=rule.id,
        severity=rule.severity,
        why=rule.why,
        fix=rule.fix,
        judge=lambda given: list(rule.judge(given.of_site)),
    )


_SHAPE_RULES: tuple[Rule, ...] = (
    Rule(
        id="fabric.cabling",
        why="a shape is made for one cabling: its ranks, channels and sizes follow from it",
        fix="choose a shape of the site's cabling: derive site shape NAME",
        judge=listed(shape.cabling),
    ),
    Rule(
        id="fabric.nodes",
        why="one rank runs on each node that the cabling joins",
        fix="leave the number of nodes to the cabling",
        judge=listed(shape.nodes),
    ),
    Rule(
        id="fabric.transport",
        why="a transport decides which variables are set, and an unknown one sets none",
        fix="name a transport of fabric/transports.toml",
        judge=listed(shape.transport_known),
    ),
    Rule(
        id="fabric.transport-cabling",
        why="four ranks reach each other along rings only, and what reaches every rank directly has cables for three",
        fix="name a transport for the cabling: fabric/transports.toml lists them",
        judge=listed(shape.transport_cabling),
    ),
    Rule(
        id="fabric.collectives",
        why="tensor-parallel ranks exchange at every layer, and the transport none gives them no way to",
        fix="name a transport with collectives",
        judge=listed(shape.collectives),
    ),
    Rule(
        id="fabric.common-stripes",
        why="small collectives cut every message into as many stripes as there are paths, the same for all peers",
        fix="give every cable as many paths",
        judge=listed(shape.common_stripes),
    ),
    Rule(
        id="fabric.stripes-needed",
        why="what the network cards forward goes over both paths of every cable",
        fix="give every cable two paths",
        judge=listed(shape.enough_stripes),
    ),
    Rule(
        id="fabric.planned",
        refuses=False,
        why="a transport that is planned renders, and nobody has shown that it runs",
        fix="name another transport, or set launch-enabled = false below [promotion] of the shape",
        judge=listed(shape.planned),
    ),
    Rule(
        id="fabric.tp-equals-nodes",
        why="one rank on each node holds its share of every layer; another number leaves nodes idle or ranks homeless",
        fix="leave tensor-parallel-size out: the cabling decides it",
        judge=listed(shape.equals_nodes("tensor-parallel-size")),
    ),
    Rule(
        id="fabric.nnodes-equals-nodes",
        why="every rank waits at start until so many nodes have come",
        fix="leave nnodes out: the cabling decides it",
        judge=listed(shape.equals_nodes("nnodes")),
    ),
    Rule(
        id="fabric.draft-tp-equals-nodes",
        why="the drafter shares the model's head and embeddings, which are split over all ranks",
        fix="leave draft_tensor_parallel_size out: the cabling decides it",
        judge=listed(shape.draft_equals_nodes),
    ),
    Rule(
        id="fabric.expert-parallel",
        why="expert parallelism sends tokens from every rank to every other, and some have no cable",
        fix="remove enable-expert-parallel",
        judge=listed(shape.expert_parallel),
    ),
    Rule(
        id="fabric.other-parallelism",
        why="another parallelism makes groups of ranks that no ring of cables joins",
        fix="remove the option: 1 is what it is without",
        judge=listed(shape.other_sizes),
    ),
    Rule(
        id="fabric.custom-all-reduce",
        why="vLLM's own all-reduce looks for peers on one machine: NCCL alone has it off, and an engine of small "
        "collectives stands where it is called",
        fix="leave disable-custom-all-reduce to the transport",
        judge=listed(shape.custom_all_reduce),
    ),
    Rule(
        id="fabric.transport-capability",
        why="variables of collectives that the image does not have are read by nothing",
        fix="leave the transport's capability to the transport",
        judge=listed(shape.capability),
    ),
    Rule(
        id="fabric.other-transport-capability",
        why="an image with the collectives of one transport replaces those of the others",
        fix="remove the need, or name the transport that it is for",
        judge=listed(shape.other_capability),
    ),
    Rule(
        id="fabric.setting-capability",
        why="stock NCCL reads no variable that only a patched one knows, and says nothing about it",
        fix="need the capability, or leave the variable out",
        judge=listed(shape.setting_capability),
    ),
    Rule(
        id="fabric.master-port",
        why="two listeners cannot have one port, and the head has both",
        fix="give master-port another number than port",
        judge=listed(shape.ports),
    ),
)

_SETTING_RULES: tuple[Rule, ...] = (
    Rule(
        id="fabric.required-settings",
        why="without them NCCL asks for peers or ways that have no cable, and a rank waits for ever",
        fix="leave the variable out of the recipe: the transport gives it",
        judge=listed(setting.required),
    ),
    Rule(
        id="fabric.off-settings",
        why="older engines take these as orders to use collectives that the transport has not",
        fix="remove the variable",
        judge=listed(setting.off),
    ),
    Rule(
        id="fabric.forbidden-settings",
        why="a plugin or a file of topology replaces the rings along the cables by others",
        fix="remove the variable",
        judge=listed(setting.forbidden),
    ),
    Rule(
        id="fabric.channels",
        why="each channel is a ring of its own that every rank opens: least and most are one number, and not every "
        "number goes evenly round the cables",
        fix="name a tuning profile for the cabling, or give both settings one allowed number",
        judge=listed(setting.channels),
    ),
    Rule(
        id="fabric.engine-variables",
        why="an engine of small collectives takes the same calls as any other: variables of two would set up both",
        fix="remove the variables of engines that the transport does not use",
        judge=listed(setting.engines),
    ),
    Rule(
        id="fabric.tuned-settings",
        why="a limit off the units in which messages move, or above the buffer that holds them, fails at the first one",
        fix="take the value of a tuning profile: derive tuning show NAME",
        judge=listed(setting.tuned),
    ),
    Rule(
        id="fabric.site-variables",
        why="an address, interface or device of one place is wrong in every other, and for every other rank",
        fix="remove the variable: each node's comes from the site",
        judge=listed(setting.of_the_site),
    ),
    Rule(
        id="fabric.kernel-arguments",
        why="weights are laid out for the backend that reads them: half of one and half of another cannot be",
        fix="leave the options to kernel-backend",
        judge=listed(setting.kernel_arguments),
    ),
    Rule(
        id="fabric.kernel-environment",
        why="a variable that names another backend than the options do leaves it to the engine which of them counts",
        fix="leave the variable to kernel-backend",
        judge=listed(setting.kernel_environment),
    ),
    Rule(
        id="fabric.kernel-cache",
        why="kernels that are compiled on a node must be kept for the next start, and the container may write to its "
        "cache alone",
        fix="name a folder below /cache/",
        judge=listed(setting.kernel_cache),
    ),
    Rule(
        id="fabric.kernel-capability",
        why="a backend that the image does not have is refused when the engine starts",
        fix="leave the backend's capability to kernel-backend",
        judge=listed(setting.kernel_capability),
    ),
)

RULES: tuple[Rule, ...] = (*map(_of_site, SITE_RULES), *_SHAPE_RULES, *_SETTING_RULES)
"""Every rule: those that a site obeys by itself first."""
