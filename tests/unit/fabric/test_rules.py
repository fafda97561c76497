# SPDX-License-Identifier: Apache-2.0
"""Every rule of the fabric: broken in one way from a good shape, it fires, and no other does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from derive.fabric.abstract import abstract_site
from derive.fabric.rule import RuleInput
from derive.fabric.rules import RULES, problems
from derive.fabric.site import Site
from derive.recipes.resolved import Resolved
from support.cli import CHECKOUT
from support.fabrics import example_site, with_one_path, without_cable
from support.shapes_of_fabric import (
    fabric,
    judged,
    on_tilelang,
    over,
    shape,
    with_argument,
    with_cable,
    with_end,
    with_need,
    with_node,
    with_path,
    with_variable,
    without_need,
)

RING = example_site("ring4")


@cache
def good() -> dict[str, Resolved]:
    """Shapes that no rule says anything about."""
    ring = shape()
    triangle = shape("ds41f", "tp3-triangle")
    unlaunched = replace(ring.promotion, launch_enabled=False)
    return {
        "ring": ring,
        "triangle": triangle,
        "triangle-4k": shape("ds41f", "tp3-triangle-4k"),
        "probe-ring": shape("probe", "ring4"),
        "probe-triangle": shape("probe", "triangle"),
        "oneshot-direct": over("oneshot-direct", "tp3", triangle),
        "oneshot-ring4": over("oneshot-ring4", "tp4"),
        "rocenante-direct": over("rocenante-direct", "tp3", triangle),
        "rocenante-ring4": over("rocenante-ring4", "tp4"),
        "rocenante-mesh4": replace(over("rocenante-mesh4", "tp4"), promotion=unlaunched),
        "switchless": over("nccl-ring", "tp4-switchless"),
        "tilelang": on_tilelang(ring),
    }


def broken(
    name: str = "ring", change: Callable[[Resolved], Resolved] | None = None, site: Site | None = None
) -> RuleInput:
    resolved = good()[name]
    return judged(change(resolved) if change is not None else resolved, site)


def at(change: Callable[[Site], Site], name: str = "ring") -> RuleInput:
    return broken(name, site=change(RING))


def draft(size: int) -> Callable[[Resolved], Resolved]:
    def change(one: Resolved) -> Resolved:
        speculative = one.arguments["speculative-config"]
        assert isinstance(speculative, dict)
        return with_argument(one, "speculative-config", {**speculative, "draft_tensor_parallel_size": size})

    return change


def from_the_profile_of_three(one: Resolved) -> Resolved:
    path = "environment.NCCL_BUFFSIZE"
    return replace(one, origins={**one.origins, path: replace(one.origins[path], file="fabric/tuning/tp3.toml")})


def argument(name: str, value: object) -> Callable[[Resolved], Resolved]:
    return lambda one: with_argument(one, name, value)  # type: ignore[arg-type]


def variable(name: str, value: str | None) -> Callable[[Resolved], Resolved]:
    return lambda one: with_variable(one, name, value)


FIFTH = replace(RING.nodes[0], name="spark5", rank=4, address="192.0.2.15", ssh_host="spark5")

MUTATIONS: dict[str, tuple[Callable[[], RuleInput], ...]] = {
    "fabric.node-count": (
        lambda: at(lambda one: replace(one, nodes=(*one.nodes, FIFTH)), "probe-ring"),
        lambda: at(lambda one: replace(one, nodes=one.nodes[:2], cables=()), "probe-ring"),
    ),
    "fabric.ranks": (lambda: at(lambda one: with_node(one, 1, rank=3)),),
    "fabric.names-distinct": (lambda: at(lambda one: with_node(one, 1, name="spark1")),),
    "fabric.management-addresses": (
        lambda: at(lambda one: with_node(one, 1, address="192.0.2.11")),
        lambda: at(lambda one: with_node(one, 1, address="169.254.0.9")),
        lambda: at(lambda one: with_node(one, 1, address="127.0.0.1")),
        lambda: at(lambda one: with_node(one, 1, address="224.0.0.1")),
        lambda: at(lambda one: with_node(one, 1, address="0.0.0.0")),
        lambda: at(lambda one: with_node(one, 1, address="spark2")),
    ),
    "fabric.ssh-hosts": (lambda: at(lambda one: with_node(one, 1, ssh_host="spark1")),),
    "fabric.peers": (
        lambda: at(lambda one: without_cable(one, 1)),
        lambda: broken("triangle", site=without_cable(example_site("triangle"), 2)),
        lambda: at(lambda one: replace(one, cables=())),
        lambda: at(
            lambda one: with_cable(
                one,
                0,
                ranks=(0, 2),
                paths=tuple(
                    replace(
                        path,
                        ends=(
                            path.ends[0],
                            replace(path.ends[1], rank=2, device=f"x{path.number}", interface=f"x{path.number}"),
                        ),
                    )
                    for path in one.cables[0].paths
                ),
                ports=(0, 7),
            )
        ),
    ),
    "fabric.stripes": (
        lambda: at(lambda one: with_cable(one, 0, paths=())),
        lambda: at(lambda one: with_path(one, 0, 0, number=2)),
        lambda: at(lambda one: with_cable(one, 0, paths=one.cables[0].paths[::-1])),
    ),
    "fabric.ports": (lambda: at(lambda one: with_cable(one, 0, ports=(1, 1))),),
    "fabric.device-one-peer": (
        lambda: at(lambda one: with_end(one, 0, 0, 0, device="roceP2p1s0f0")),
        lambda: at(lambda one: with_end(one, 0, 0, 0, device="rocep1s0f1")),
    ),
    "fabric.interface-one-path": (
        lambda: at(lambda one: with_end(one, 0, 0, 0, interface="enp1s0f1np1")),
        lambda: at(lambda one: with_end(one, 0, 0, 0, interface="enP7s7")),
    ),
    "fabric.subnets": (
        lambda: at(lambda one: with_path(one, 0, 0, subnet="10.12.1.0/25")),
        lambda: at(lambda one: with_path(one, 0, 0, subnet="10.12.1.4/24")),
        lambda: at(lambda one: with_path(one, 0, 0, subnet="10.12.1.0/255.255.255.0")),
        lambda: at(
            lambda one: with_path(
                one,
                0,
                1,
                subnet="10.12.1.0/24",
                ends=tuple(replace(end, address=f"10.12.1.{end.rank + 101}") for end in one.cables[0].paths[1].ends),
            )
        ),
        lambda: at(lambda one: with_node(one, 0, address="10.12.1.77")),
    ),
    "fabric.addresses": (
        lambda: at(lambda one: with_end(one, 0, 0, 0, address="10.99.1.1")),
        lambda: at(lambda one: with_end(one, 0, 0, 0, address="10.12.1.2")),
        lambda: at(lambda one: with_end(one, 0, 0, 0, address="10.12.1.0")),
        lambda: at(lambda one: with_end(one, 0, 0, 0, address="10.12.1.255")),
        lambda: at(lambda one: with_end(one, 0, 0, 0, address="169.254.3.4")),
        lambda: at(lambda one: with_end(one, 0, 0, 0, address="nowhere")),
    ),
    "fabric.cabling": (lambda: broken("probe-triangle", site=RING),),
    "fabric.nodes": (lambda: broken("ring", lambda one: replace(one, nodes=3)),),
    "fabric.transport": (lambda: broken("ring", lambda one: replace(one, transport="nccl-rings")),),
    "fabric.transport-cabling": (
        lambda: broken("probe-triangle", lambda one: replace(one, transport="oneshot-ring4")),
        lambda: judged(over("oneshot-direct", "tp4")),
    ),
    "fabric.collectives": (lambda: broken("ring", lambda one: replace(one, transport="none")),),
    "fabric.common-stripes": (
        lambda: broken("oneshot-ring4", site=with_cable(RING, 2, paths=RING.cables[2].paths[:1])),
        lambda: broken(
            "rocenante-direct",
            site=with_cable(example_site("triangle"), 1, paths=example_site("triangle").cables[1].paths[:1]),
        ),
    ),
    "fabric.stripes-needed": (lambda: broken("rocenante-mesh4", site=with_one_path(RING)),),
    "fabric.planned": (
        lambda: broken(
            "rocenante-mesh4", lambda one: replace(one, promotion=replace(one.promotion, launch_enabled=True))
        ),
    ),
    "fabric.tp-equals-nodes": (
        lambda: broken("ring", argument("tensor-parallel-size", 3)),
        lambda: broken("ring", argument("tensor-parallel-size", None)),
        lambda: broken("ring", argument("tensor-parallel-size", "4")),
    ),
    "fabric.nnodes-equals-nodes": (lambda: broken("triangle", argument("nnodes", 4)),),
    "fabric.draft-tp-equals-nodes": (lambda: broken("ring", draft(1)),),
    "fabric.expert-parallel": (
        lambda: broken("ring", argument("enable-expert-parallel", value=True)),
        lambda: broken("oneshot-direct", argument("enable-expert-parallel", value=True)),
    ),
    "fabric.other-parallelism": tuple(
        lambda name=name: broken("ring", argument(name, 2))  # type: ignore[misc]
        for name in (
            "pipeline-parallel-size",
            "data-parallel-size",
            "decode-context-parallel-size",
            "prefill-context-parallel-size",
        )
    ),
    "fabric.custom-all-reduce": (
        lambda: broken("ring", argument("disable-custom-all-reduce", None)),
        lambda: broken("ring", argument("disable-custom-all-reduce", value=False)),
        lambda: broken("oneshot-ring4", argument("disable-custom-all-reduce", value=True)),
        lambda: broken("rocenante-ring4", argument("disable-custom-all-reduce", value=True)),
    ),
    "fabric.transport-capability": (
        lambda: broken("ring", lambda one: without_need(one, "nccl")),
        lambda: broken("oneshot-ring4", lambda one: without_need(one, "oneshot-ring4")),
    ),
    "fabric.other-transport-capability": (
        lambda: broken("ring", lambda one: with_need(one, "oneshot-ring4")),
        lambda: broken("oneshot-ring4", lambda one: with_need(one, "rocenante-ring4")),
        lambda: broken("oneshot-direct", lambda one: with_need(one, "oneshot-ring4")),
    ),
    "fabric.setting-capability": (
        lambda: broken("switchless", lambda one: without_need(one, "nccl-switchless")),
        lambda: broken("ring", variable("NCCL_SWITCHLESS_BIDIRECTIONAL", "2")),
    ),
    "fabric.master-port": (lambda: broken("ring", lambda one: replace(one, master_port=one.port)),),
    "fabric.required-settings": (
        *(lambda name=name: broken("ring", variable(name, None)) for name in fabric().transports["nccl-ring"].settings),
        *(
            lambda name=name, value=value: broken("ring", variable(name, f"{value[0]}x"))
            for name, value in fabric().transports["nccl-ring"].settings.items()
        ),
        lambda: broken("oneshot-ring4", variable("SPARKNET_ROCE_TOPOLOGY", "direct")),
        lambda: broken("rocenante-direct", variable("B12X_ROCE_TOPOLOGY", "ring4")),
        lambda: broken("rocenante-ring4", variable("VLLM_ENABLE_ROCE_ALLREDUCE", "0")),
    ),
    "fabric.off-settings": (
        lambda: broken("ring", variable("VLLM_ENABLE_PCIE_ALLREDUCE", "1")),
        lambda: broken("ring", variable("VLLM_ENABLE_ROCE_ALLREDUCE", "1")),
    ),
    "fabric.forbidden-settings": tuple(
        lambda name=name: broken("ring", variable(name, ""))  # type: ignore[misc]
        for name in ("NCCL_ALGO_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_GRAPH_FILE", "NCCL_TOPO_FILE")
    ),
    "fabric.channels": (
        lambda: broken("ring", variable("NCCL_MIN_NCHANNELS", "2")),
        lambda: broken("ring", variable("NCCL_MAX_NCHANNELS", None)),
        lambda: broken("triangle", lambda one: channels(one, "2")),
        lambda: broken("ring", lambda one: channels(one, "3")),
    ),
    "fabric.engine-variables": (
        lambda: broken("ring", variable("SPARKNET_ROCE_TOPOLOGY", "ring4")),
        lambda: broken("oneshot-ring4", variable("B12X_ROCE_TOPOLOGY", "ring4")),
        lambda: broken("oneshot-direct", variable("VLLM_ROCE_ALLREDUCE_MAX_SIZE", "2MB")),
        lambda: broken("rocenante-ring4", variable("SPARKNET_ROCE_HCA", "rocep1s0f0")),
    ),
    "fabric.tuned-settings": (
        lambda: broken("oneshot-ring4", variable("SPARKNET_ROCE_ALLGATHER_MAX_BYTES", "2097153")),
        lambda: broken("oneshot-ring4", variable("SPARKNET_ROCE_ALLREDUCE_DISPATCH_MAX_BYTES", "4194304")),
        lambda: broken("ring", variable("NCCL_PROTO", "LL")),
        lambda: broken("ring", variable("NCCL_THREAD_THRESHOLDS", "1 1 1")),
        lambda: broken("ring", variable("NCCL_BUFFSIZE", "4MiB")),
        lambda: broken("switchless", variable("NCCL_SWITCHLESS_BIDIRECTIONAL", "1")),
        lambda: broken("ring", from_the_profile_of_three),
        lambda: broken(
            "triangle",
            lambda one: with_need(with_variable(one, "NCCL_SWITCHLESS_BIDIRECTIONAL", "2"), "nccl-switchless"),
        ),
    ),
    "fabric.site-variables": (
        lambda: broken("ring", variable("VLLM_HOST_IP", "192.0.2.11")),
        lambda: broken("ring", variable("NCCL_IB_HCA", "rocep1s0f0")),
        lambda: broken("ring", variable("GLOO_SOCKET_IFNAME", "enP7s7")),
        lambda: broken("oneshot-ring4", variable("SPARKNET_ROCE_PEER_HCAS", "{}")),
    ),
    "fabric.kernel-arguments": (
        lambda: broken("ring", argument("linear-backend", "tilelang")),
        lambda: broken("ring", argument("moe-backend", None)),
        lambda: broken("tilelang", argument("attention-backend", "B12X")),
        lambda: broken(
            "tilelang", lambda one: with_argument(one, "speculative-config", {"draft_tensor_parallel_size": 4})
        ),
    ),
    "fabric.kernel-environment": (
        lambda: broken("ring", variable("VLLM_DS41_KERNEL_BACKEND", "tilelang")),
        lambda: broken("tilelang", variable("VLLM_DS41_KERNEL_BACKEND", None)),
    ),
    "fabric.kernel-cache": tuple(
        lambda value=value: broken("tilelang", variable("TILELANG_CACHE_DIR", value))  # type: ignore[misc]
        for value in (None, "", "/cache", "/cache/", "/tmp/tilelang", "/cache/../tmp", "/cached/x")
    ),
    "fabric.kernel-capability": (
        lambda: broken("ring", lambda one: without_need(one, "moe-b12x")),
        lambda: broken("tilelang", lambda one: without_need(one, "tilelang-backend")),
    ),
}


def channels(resolved: Resolved, count: str) -> Resolved:
    for name in ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"):
        resolved = with_variable(resolved, name, count)
    return resolved


def fired(given: RuleInput) -> set[str]:
    found = problems(given.resolved, given.site, given.fabric, given.site_file)
    return {one.rule.id for one in found}


@pytest.mark.parametrize("name", sorted(good()))
def test_a_good_shape_breaks_no_rule(name: str) -> None:
    given = judged(good()[name])
    assert problems(given.resolved, given.site, given.fabric) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_way_to_break_a_rule_fires_that_rule_and_no_other(rule: object) -> None:
    name = getattr(rule, "id", "")
    assert MUTATIONS.get(name), f"{name} has no mutation: add one that breaks it, and nothing else"
    for number, mutation in enumerate(MUTATIONS[name]):
        assert fired(mutation()) == {name}, f"mutation {number} of {name}"


def test_every_mutation_is_of_a_rule() -> None:
    assert MUTATIONS.keys() == {rule.id for rule in RULES}


def test_rules_have_distinct_names_and_say_why_and_what_to_do() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.why and rule.fix and not rule.why.endswith(".") for rule in RULES)


@pytest.mark.parametrize("name", sorted(good()))
def test_the_abstract_site_breaks_no_rule(name: str) -> None:
    resolved = good()[name]
    assert problems(resolved, abstract_site(resolved.cabling), fabric()) == []


def test_a_shape_of_no_collectives_is_asked_for_nothing_of_nccl() -> None:
    plain = with_variable(shape("probe", "ring4"), "NCCL_ALGO", "Tree")
    assert fired(judged(plain)) == set()


def test_one_path_in_every_cable_is_enough_for_nccl_and_for_engines() -> None:
    one_path = with_one_path(RING)
    for name in ("ring", "oneshot-ring4", "rocenante-ring4"):
        assert fired(broken(name, site=one_path)) == set()
    uneven = with_cable(RING, 2, paths=RING.cables[2].paths[:1])
    assert fired(broken("ring", site=uneven)) == set()


def test_a_breach_of_a_setting_is_placed_where_the_setting_came_from() -> None:
    given = broken("ring", variable("NCCL_ALGO", "Tree"))
    (breach,) = problems(given.resolved, given.site, given.fabric)
    assert breach.problem.where == "fabric/transports.toml: ring.settings.NCCL_ALGO"
    assert breach.problem.detail[1] == "got       Tree"


def test_two_sparks_are_refused_with_the_reason() -> None:
    given = MUTATIONS["fabric.node-count"][1]()
    (breach,) = problems(given.resolved, given.site, given.fabric, given.site_file)
    assert breach.problem.where == "site.toml: nodes"
    assert breach.problem.message.startswith("two Sparks are refused: over two ranks the weights alone")


def test_the_documentation_has_every_rule_with_its_reason() -> None:
    text = (CHECKOUT / "docs" / "fabric.md").read_text()
    rows = [f"| `{rule.id}` | {rule.why} |" for rule in RULES]
    assert [row for row in rows if row not in text] == []
    assert text.count("| `fabric.") == len(rows)
