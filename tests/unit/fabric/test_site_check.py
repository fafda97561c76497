# SPDX-License-Identifier: Apache-2.0
"""A site file against the facts of its machines: what is not there is refused with what is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from derive.fabric.facts import NodeFacts
from derive.fabric.rule import SiteInput
from derive.fabric.site import Site
from derive.fabric.site_check import check_site
from support.fabrics import example_site
from support.network_facts import facts_of_site, gids
from support.shapes_of_fabric import with_end, with_node

RING = example_site("ring4")


def said(site: Site, facts: list[NodeFacts]) -> list[tuple[str, str, str, str]]:
    given = SiteInput(site=site, file="site.toml")
    return [(one.verdict, one.id, one.where, one.message) for one in check_site(given, facts) if one.verdict != "pass"]


def changed(change: Callable[[NodeFacts], NodeFacts]) -> list[NodeFacts]:
    facts = facts_of_site(RING)
    return [change(facts[0]), *facts[1:]]


def interface(name: str, **changes: object) -> Callable[[NodeFacts], NodeFacts]:
    def change(facts: NodeFacts) -> NodeFacts:
        return replace(
            facts,
            interfaces=tuple(
                replace(one, **changes) if one.name == name else one  # type: ignore[arg-type]
                for one in facts.interfaces
            ),
        )

    return change


def device(name: str, **changes: object) -> Callable[[NodeFacts], NodeFacts]:
    def change(facts: NodeFacts) -> NodeFacts:
        return replace(
            facts,
            devices=tuple(
                replace(one, **changes) if one.name == name else one  # type: ignore[arg-type]
                for one in facts.devices
            ),
        )

    return change


def test_machines_that_are_as_the_site_says_pass_one_by_one() -> None:
    given = SiteInput(site=RING, file="site.toml")
    found = check_site(given, facts_of_site(RING))
    assert [one.verdict for one in found] == ["pass"] * 4
    assert found[0].message == "spark1 is as the file says: its management address, and 4 ends of paths"


def test_a_machine_whose_facts_nobody_gave_is_unknown() -> None:
    assert said(RING, facts_of_site(RING)[:3]) == [
        ("unknown", "site.node", "site.toml: nodes[3]", "nobody gave the facts of spark4")
    ]


def test_an_interface_that_does_not_exist_is_refused_with_what_exists() -> None:
    site = with_end(RING, 0, 0, 0, interface="enp1s0f0")
    (found,) = (
        one for one in check_site(SiteInput(site=site, file="site.toml"), facts_of_site(RING)) if one.verdict != "pass"
    )
    assert (found.verdict, found.where) == ("finding", "site.toml: cables[0].paths[0].interfaces")
    assert found.message == "no interface enp1s0f0 on spark1"
    assert found.detail == ("there are docker0, enP2p1s0f0np0, enP2p1s0f1np1, enP7s7, enp1s0f0np0, enp1s0f1np1",)
    assert found.fix == "did you mean enp1s0f0np0?"


def test_a_device_that_does_not_exist_is_refused_with_what_exists() -> None:
    site = with_end(RING, 0, 1, 1, device="mlx5_1")
    assert said(site, facts_of_site(RING)) == [
        ("finding", "site.device", "site.toml: cables[0].paths[1].devices", "no RDMA device mlx5_1 on spark2")
    ]


def test_a_management_interface_that_does_not_exist_is_refused() -> None:
    site = with_node(RING, 1, interface="eno1")
    assert said(site, facts_of_site(RING)) == [
        ("finding", "site.interface", "site.toml: nodes[1].interface", "no interface eno1 on spark2")
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (interface("enP7s7", addresses=("192.0.2.99/24",)), "enP7s7 of spark1 has another address"),
        (interface("enp1s0f0np0", addresses=()), "enp1s0f0np0 of spark1 has another address"),
        (interface("enp1s0f0np0", mtu=1500), "enp1s0f0np0 of spark1 has another MTU"),
        (interface("enp1s0f0np0", carrier=False), "enp1s0f0np0 of spark1 has no carrier"),
        (device("rocep1s0f0", interfaces=("enp9s0",)), "rocep1s0f0 of spark1 belongs to another interface"),
        (device("rocep1s0f0", gids=()), "rocep1s0f0 of spark1 has no address at GID index 3"),
        (device("rocep1s0f0", gids=gids("10.77.1.1")), "rocep1s0f0 of spark1 has something else at GID index 3"),
        (
            device("rocep1s0f0", gids=gids("10.12.1.1", first=3)),
            "rocep1s0f0 of spark1 has something else at GID index 3",
        ),
    ],
)
def test_what_a_machine_says_otherwise_is_a_finding(change: Callable[[NodeFacts], NodeFacts], expected: str) -> None:
    found = said(RING, changed(change))
    assert [(verdict, message) for verdict, _, _, message in found] == [("finding", expected)]
    given = SiteInput(site=RING, file="site.toml")
    assert all(one.fix for one in check_site(given, changed(change)) if one.verdict == "finding")


@pytest.mark.parametrize("key", ["mtu", "carrier"])
def test_what_a_machine_could_not_read_is_unknown_and_no_pass(key: str) -> None:
    (found,) = said(RING, changed(interface("enp1s0f0np0", **{key: None})))
    assert found[0] == "unknown"


def test_facts_of_a_stranger_are_a_finding() -> None:
    facts = facts_of_site(RING)
    (found,) = said(RING, [*facts, replace(facts[0], host="other")])
    assert found[3] == "facts of other, which is no node of this site"


def test_a_machine_is_known_by_the_name_that_ssh_has_for_it() -> None:
    site = with_node(RING, 0, name="head", ssh_host="spark1.example")
    assert said(site, facts_of_site(RING)) == []
