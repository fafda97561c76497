# SPDX-License-Identifier: Apache-2.0
"""Ports of several machines are paired into cables by their subnets, whatever the order in which machines list them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.cli.console import _format
from derive.errors import InputErrors
from derive.fabric.cabling import edges
from derive.fabric.facts import KIND, NodeFacts, read_facts
from derive.fabric.gather import gather
from derive.fabric.load import load_site
from derive.fabric.pairing import Paired, pair
from derive.fabric.rule import SiteInput
from derive.fabric.site_check import check_site
from derive.fabric.site_text import paired_site, site_text
from derive.records.model import record
from support.fabrics import example_site
from support.golden import check_golden
from support.network_facts import facts_of_site, gids, node, port, write_sys
from support.shapes_of_fabric import with_end

RING = example_site("ring4")


def files(facts: list[NodeFacts]) -> list[str]:
    return [f"{one.host}.json" for one in facts]


def paired(facts: list[NodeFacts], interface: str | None = None) -> Paired:
    return pair(facts, files(facts), interface)


def refusals(facts: list[NodeFacts], interface: str | None = None) -> str:
    with pytest.raises(InputErrors) as caught:
        paired(facts, interface)
    return "".join(f"{_format(one)}\n" for one in caught.value.problems())


def test_the_machines_of_a_ring_give_its_cables_back() -> None:
    found = paired(facts_of_site(RING))
    assert found.cables == RING.cables
    assert not found.reordered
    assert [one.address for one in found.management] == [one.address for one in RING.nodes]
    assert found.gid_indices == (3, 3, 3, 3)
    assert found.ignored == ()


def four_ports() -> list[NodeFacts]:
    """Three machines: on the first a port with a link-local address, on the second one in another subnet."""
    triangle = facts_of_site(example_site("triangle"))
    stray = port("rocep2s0f0", "enp2s0f0np0", "169.254.77.1")
    other = port("rocep2s0f0", "enp2s0f0np0", "10.99.1.2")
    silent = port("rocep2s0f1", "enp2s0f1np1", None)
    first, second, third = triangle
    return [
        replace(first, devices=(stray[0], *first.devices), interfaces=(*first.interfaces, stray[1])),
        replace(second, devices=(*second.devices[::-1], other[0]), interfaces=(*second.interfaces, other[1])),
        replace(
            third,
            devices=(silent[0], *third.devices[2:], *third.devices[:2]),
            interfaces=(*third.interfaces, silent[1]),
        ),
    ]


def test_only_cabled_ports_are_used_paired_per_edge_and_the_others_are_said_with_the_reason() -> None:
    found = paired(four_ports())
    assert found.cables == example_site("triangle").cables
    assert [(one.node, one.device, one.address, one.reason) for one in found.ignored] == [
        ("spark1", "rocep2s0f0", "169.254.77.1/24", "a link-local address: nobody gave it one of its own"),
        ("spark3", "rocep2s0f1", None, "it has no IPv4 address"),
        ("spark2", "rocep2s0f0", "10.99.1.2/24", "no other of these machines is in 10.99.1.0/24"),
    ]


def test_four_ports_of_which_two_are_cabled_as_read_from_the_machines_themselves(tmp_path: Path) -> None:
    facts = []
    for one in four_ports():
        printed = write_sys(tmp_path / one.host, one)
        seen = gather(tmp_path / one.host, lambda printed=printed: printed, one.host)  # type: ignore[misc]
        facts.append(read_facts(json.dumps(record(KIND, seen.host, seen.body())).encode(), one.host))
    found = paired(facts)
    assert found.cables == example_site("triangle").cables
    assert {one.device for one in found.ignored} == {"rocep2s0f0", "rocep2s0f1"}
    _, site = site_text(paired_site("lab", "operator", "/home/operator", found), "site.toml")
    wrong = with_end(site, 0, 0, 0, interface="enp1s0f0")
    for judged, verdicts in ((site, {"pass"}), (wrong, {"pass", "finding"})):
        assert {one.verdict for one in check_site(SiteInput(site=judged), facts)} == verdicts


@given(st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_no_order_in_which_machines_list_their_devices_changes_the_cables(random: Random) -> None:
    shuffled = [
        replace(
            one,
            devices=tuple(random.sample(one.devices, len(one.devices))),
            interfaces=tuple(random.sample(one.interfaces, len(one.interfaces))),
        )
        for one in facts_of_site(RING)
    ]
    assert paired(shuffled).cables == RING.cables


@pytest.mark.parametrize("order", list(permutations(range(1, 4))))
def test_machines_given_in_any_order_are_put_in_one_that_goes_round(order: tuple[int, ...]) -> None:
    facts = facts_of_site(RING)
    found = paired([facts[0], *(facts[at] for at in order)])
    assert found.nodes[0].host == "spark1"
    assert tuple(one.ranks for one in found.cables) == edges(4)
    if order not in ((1, 2, 3), (3, 2, 1)):
        assert found.reordered
        assert [one.host for one in found.nodes] == ["spark1", "spark2", "spark3", "spark4"]


def test_a_stripe_is_one_subnet_even_where_devices_cross_over() -> None:
    one = node(
        "a",
        "192.0.2.1",
        [port("rocep1s0f0", "x0", "10.12.1.1"), port("roceP2p1s0f0", "x1", "10.12.2.1"), port("r2", "x2", "10.13.1.1")],
    )
    two = node(
        "b",
        "192.0.2.2",
        [port("roceP2p1s0f1", "y0", "10.12.1.2"), port("rocep1s0f1", "y1", "10.12.2.2"), port("r2", "y2", "10.23.1.2")],
    )
    three = node("c", "192.0.2.3", [port("r1", "z1", "10.13.1.3"), port("r2", "z2", "10.23.1.3")])
    cable = paired([one, two, three]).cables[0]
    assert [(path.ends[0].device, path.ends[1].device) for path in cable.paths] == [
        ("rocep1s0f0", "roceP2p1s0f1"),
        ("roceP2p1s0f0", "rocep1s0f1"),
    ]
    assert cable.ports == (0, 1)


def test_the_site_that_facts_come_to_reads_as_their_cables() -> None:
    found = paired(four_ports())
    text, site = site_text(paired_site("lab", "operator", "/home/operator", found), "site.toml")
    assert "[[cables]]" not in text
    assert site == replace(example_site("triangle"), name="lab", example=False)
    assert load_site(text.encode(), "site.toml") == site


def test_cables_that_are_not_the_usual_ones_are_written_out() -> None:
    moved = [
        replace(
            one,
            devices=tuple(replace(device, name=device.name.replace("roce", "mlx")) for device in one.devices),
        )
        for one in facts_of_site(RING)
    ]
    found = paired(moved)
    text, site = site_text(paired_site("lab", "operator", "/home/operator", found), "site.toml")
    assert text.count("[[cables]]") == 4
    assert site.cables == found.cables


def test_a_chain_is_refused_when_its_site_is_read() -> None:
    facts = facts_of_site(RING)
    dead = {"rocep1s0f0", "roceP2p1s0f0"}
    facts[3] = replace(facts[3], devices=tuple(one for one in facts[3].devices if one.name not in dead))
    with pytest.raises(InputErrors) as caught:
        site_text(paired_site("lab", "operator", "/home/operator", paired(facts)), "site.toml")
    assert caught.value.problems()[0].message == "no cable between spark1 and spark4: this is a chain, and no ring"


def test_a_gid_index_of_its_own_is_found() -> None:
    facts = facts_of_site(RING)
    facts[2] = replace(
        facts[2],
        devices=tuple(replace(one, gids=gids(one.gids[-1].ipv4 or "", first=4)) for one in facts[2].devices),
    )
    found = paired(facts)
    assert found.gid_indices == (3, 3, 5, 3)
    text, site = site_text(paired_site("lab", "operator", "/home/operator", found), "site.toml")
    assert [one.gid_index for one in site.nodes] == ["3", "3", "5", "3"]
    assert text.count("gid-index") == 2


def test_a_management_interface_of_its_own_is_kept() -> None:
    facts = facts_of_site(RING)
    first = facts[1].interfaces[0]
    facts[1] = replace(facts[1], interfaces=(replace(first, name="eno1"), *facts[1].interfaces[1:]))
    _, site = site_text(paired_site("lab", "operator", "/home/operator", paired(facts)), "site.toml")
    assert [one.interface for one in site.nodes] == ["enP7s7", "eno1", "enP7s7", "enP7s7"]


def two_networks(facts: list[NodeFacts]) -> list[NodeFacts]:
    return [
        replace(
            one,
            interfaces=(
                *one.interfaces,
                replace(one.interfaces[0], name="wlan0", addresses=(f"198.51.100.{at + 1}/24",)),
            ),
        )
        for at, one in enumerate(facts)
    ]


def test_of_several_networks_that_all_are_in_one_must_be_named() -> None:
    facts = two_networks(facts_of_site(RING))
    check_golden("fabric/pairing-networks.txt", refusals(facts))
    assert paired(facts, "wlan0").management[0].address == "198.51.100.1"


def test_what_cannot_be_paired_is_refused_in_words() -> None:
    facts = facts_of_site(RING)
    extra = port("rocep2s0f0", "enp2s0f0np0", "10.12.1.9")
    loop = (port("rocep2s0f1", "enp2s0f1np1", "10.50.1.1"), port("rocep2s0f2", "enp2s0f2np2", "10.50.1.2"))
    third = (port("rocep3s0f0", "enp3s0f0np0", "10.12.3.1"), port("rocep3s0f0", "enp3s0f0np0", "10.12.3.2"))
    facts[2] = replace(facts[2], devices=(*facts[2].devices, extra[0]), interfaces=(*facts[2].interfaces, extra[1]))
    facts[3] = replace(
        facts[3],
        devices=(*facts[3].devices, *(one for one, _ in loop)),
        interfaces=(*facts[3].interfaces, *(one for _, one in loop)),
    )
    for at, one in enumerate(third):
        facts[at] = replace(facts[at], devices=(*facts[at].devices, one[0]), interfaces=(*facts[at].interfaces, one[1]))
    facts[0] = replace(
        facts[0],
        interfaces=tuple(one for one in facts[0].interfaces if one.name != "enP7s7"),
        devices=(
            *facts[0].devices[:2],
            replace(facts[0].devices[2], gids=facts[0].devices[2].gids[:3]),
            *facts[0].devices[3:],
        ),
    )
    check_golden("fabric/pairing-bad.txt", refusals(facts))


def test_facts_of_one_machine_twice_are_refused() -> None:
    facts = facts_of_site(RING)
    assert "the facts of spark2 a second time" in refusals([*facts[:2], facts[1]])


def test_a_management_interface_that_is_not_there_is_refused_with_what_is() -> None:
    facts = facts_of_site(RING)
    assert "no interface eno9 on spark1" in refusals(facts, "eno9")
