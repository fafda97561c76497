# SPDX-License-Identifier: Apache-2.0
"""What each rank's variables get from the site."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from derive.fabric.abstract import abstract_site
from derive.fabric.environment import node_environment, node_settings
from support.fabrics import example_site
from support.shapes_of_fabric import fabric, over, shape, with_end, with_node

RING, TRIANGLE = example_site("ring4"), example_site("triangle")


def test_a_ring_of_nccl_alone_has_addresses_interfaces_and_devices_by_exact_name() -> None:
    assert node_environment(shape(), RING, 2, fabric()) == {
        "GLOO_SOCKET_IFNAME": "enP7s7",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_HCA": "=roceP2p1s0f0,roceP2p1s0f1,rocep1s0f0,rocep1s0f1",
        "NCCL_SOCKET_IFNAME": "enP7s7",
        "VLLM_HOST_IP": "192.0.2.13",
    }


def test_a_service_without_collectives_gets_nothing() -> None:
    assert node_environment(shape("probe", "ring4"), RING, 0, fabric()) == {}


def test_a_program_that_is_not_vllm_gets_nothing_whatever_its_transport() -> None:
    plain = replace(shape("probe", "ring4"), transport="nccl-ring")
    assert node_environment(plain, RING, 0, fabric()) == {}


def test_on_a_triangle_every_other_rank_is_a_peer_over_a_cable_of_its_own() -> None:
    resolved = over("oneshot-direct", "tp3", shape("ds41f", "tp3-triangle"))
    found = node_environment(resolved, TRIANGLE, 1, fabric())
    assert found["SPARKNET_ROCE_PEER_HCAS"] == ('{"0":["rocep1s0f1","roceP2p1s0f1"],"2":["rocep1s0f0","roceP2p1s0f0"]}')
    assert found["SPARKNET_ROCE_GID_INDEX"] == "3"
    assert resolved.environment["SPARKNET_ROCE_TOPOLOGY"] == "direct"
    assert not any(name.startswith("B12X_ROCE") for name in found)


@pytest.mark.parametrize("transport", ["oneshot-ring4", "rocenante-ring4"])
def test_on_a_ring_the_peers_are_the_neighbours(transport: str) -> None:
    prefix = "SPARKNET" if transport.startswith("oneshot") else "B12X"
    found = node_environment(over(transport, "tp4"), RING, 0, fabric())
    assert json.loads(found[f"{prefix}_ROCE_PEER_HCAS"]) == {
        "1": ["rocep1s0f0", "roceP2p1s0f0"],
        "3": ["rocep1s0f1", "roceP2p1s0f1"],
    }


def test_where_network_cards_forward_the_rank_opposite_is_a_peer_too() -> None:
    found = node_environment(over("rocenante-mesh4", "tp4"), RING, 3, fabric())
    assert sorted(json.loads(found["B12X_ROCE_PEER_HCAS"])) == ["0", "1", "2"]


def test_both_ends_of_a_path_stand_at_the_same_place_of_their_maps() -> None:
    resolved = over("oneshot-ring4", "tp4")
    maps = [
        json.loads(node_environment(resolved, RING, rank, fabric())["SPARKNET_ROCE_PEER_HCAS"]) for rank in range(4)
    ]
    for cable in RING.cables:
        low, high = cable.ranks
        for number, path in enumerate(cable.paths):
            assert maps[low][str(high)][number] == path.ends[0].device
            assert maps[high][str(low)][number] == path.ends[1].device


def test_a_node_of_its_own_interface_index_and_class_is_told_so() -> None:
    site = with_node(RING, 1, interface="eno1", gid_index="5", traffic_class="106")
    found = node_environment(over("oneshot-ring4", "tp4"), site, 1, fabric())
    assert found["NCCL_SOCKET_IFNAME"] == "eno1"
    assert (found["NCCL_IB_GID_INDEX"], found["SPARKNET_ROCE_GID_INDEX"]) == ("5", "5")
    assert (found["NCCL_IB_TC"], found["SPARKNET_ROCE_TRAFFIC_CLASS"]) == ("106", "106")


def test_devices_are_those_of_cables_and_no_others() -> None:
    site = with_end(RING, 0, 0, 0, device="mlx5_0")
    assert node_environment(shape(), site, 0, fabric())["NCCL_IB_HCA"].startswith("=mlx5_0,")


def test_each_value_says_which_key_of_the_site_it_is() -> None:
    found = node_settings(shape(), RING, 2, fabric(), "site.toml")
    assert found["VLLM_HOST_IP"].origin.key == "nodes[2].address"
    assert {one.origin.file for one in found.values()} == {"site.toml"}
    assert all(one.origin.rule == "site" and one.origin.doc for one in found.values())


def test_the_abstract_site_gives_the_same_variables_as_a_real_one() -> None:
    for resolved in (shape(), over("oneshot-ring4", "tp4"), over("rocenante-ring4", "tp4")):
        abstract = node_environment(resolved, abstract_site("ring4"), 0, fabric())
        assert abstract.keys() == node_environment(resolved, RING, 0, fabric()).keys()
        assert abstract["VLLM_HOST_IP"] == "${site:nodes[0].address}"
