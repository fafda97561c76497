# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from derive.fabric.abstract import abstract_site
from derive.fabric.collectives import Algorithm, schedule
from derive.fabric.plan_count import carry
from derive.fabric.plan_links import Load, Rates, cable_ways, limiting, loads, root_name
from derive.fabric.site import Site
from support.fabrics import example_site, with_one_path

RATES = Rates(cable=25_000_000_000, root=15_753_846_153)
SIZE = 2 << 20


def loaded(site: Site, algorithm: Algorithm, size: int = SIZE) -> tuple[Load, ...]:
    counts = carry(schedule("all-reduce", algorithm, len(site.nodes)), size, cable_ways(site))
    return loads(site, counts, RATES)


def of_kind(found: tuple[Load, ...], kind: str) -> list[Load]:
    return [load for load in found if load.kind == kind]


def test_each_cable_and_each_root_is_there_both_ways() -> None:
    found = loaded(example_site("ring4"), "ring")
    assert len(of_kind(found, "cable")) == 4 * 2
    assert len(of_kind(found, "root")) == 4 * 2 * 2
    assert [load.where for load in of_kind(found, "root")[:4]] == [
        "rocep1s0 out",
        "rocep1s0 in",
        "roceP2p1s0 out",
        "roceP2p1s0 in",
    ]


@pytest.mark.parametrize("algorithm", ["ring", "ring-both", "relay"])
def test_what_cables_carry_goes_through_roots_at_both_ends(algorithm: Algorithm) -> None:
    found = loaded(example_site("ring4"), algorithm)
    cables = sum(load.size_bytes for load in of_kind(found, "cable"))
    for side in ("out", "in"):
        roots = sum(load.size_bytes for load in of_kind(found, "root") if load.where.endswith(side))
        assert roots == cables


def test_a_relay_is_limited_by_the_roots_that_both_cages_share() -> None:
    busiest, equal = limiting(loaded(example_site("ring4"), "relay"))
    assert (busiest.kind, busiest.size_bytes) == ("root", SIZE * 3 // 2)
    assert busiest.time_s == Fraction(SIZE * 3 // 2, RATES.root)
    assert equal == 4 * 2 * 2 - 1


def test_one_ring_is_limited_by_the_cables_in_its_direction() -> None:
    busiest, equal = limiting(loaded(example_site("ring4"), "ring"))
    assert (busiest.kind, busiest.ranks, busiest.where) == ("cable", (0, 1), "spark1 to spark2")
    assert equal == 3


def test_two_rings_move_the_limit_from_the_cables_to_the_roots() -> None:
    assert limiting(loaded(example_site("ring4"), "ring-both"))[0].kind == "root"


def test_with_one_path_its_root_takes_all() -> None:
    one, both = (
        limiting(loaded(site, "relay"))[0] for site in (with_one_path(example_site("ring4")), example_site("ring4"))
    )
    assert one.size_bytes == 2 * both.size_bytes


def test_forwarding_in_network_cards_loads_cables_and_not_roots() -> None:
    found = loaded(example_site("ring4"), "mesh")
    assert max(load.size_bytes for load in of_kind(found, "cable")) == 2 * SIZE
    assert max(load.size_bytes for load in of_kind(found, "root")) == SIZE * 3 // 2


def test_the_limit_does_not_hang_on_names_or_on_the_order_of_cables() -> None:
    site = example_site("triangle")
    other = replace(site, cables=site.cables[::-1])
    renamed = replace(site, nodes=tuple(replace(node, name=f"x{node.rank}") for node in site.nodes))
    found = [limiting(loaded(one, "direct")) for one in (site, other, renamed)]
    assert len({(busiest.kind, busiest.size_bytes, equal) for busiest, equal in found}) == 1


def test_a_site_and_the_abstract_site_of_its_cabling_carry_the_same() -> None:
    for cabling in ("triangle", "ring4"):
        found = [
            sorted((load.kind, load.ranks, load.size_bytes) for load in loaded(site, "ring"))
            for site in (example_site(cabling), abstract_site(cabling))
        ]
        assert found[0] == found[1]


@pytest.mark.parametrize(
    ("device", "root"),
    [("rocep1s0f0", "rocep1s0"), ("rocep1s0f1", "rocep1s0"), ("roceP2p1s0f1", "roceP2p1s0"), ("mlx5_2", "path 2")],
)
def test_a_device_tells_its_root_or_its_path_does(device: str, root: str) -> None:
    assert root_name(device, 2) == root
