# SPDX-License-Identifier: Apache-2.0
"""Many nodes: asked, planned for and brought an image, over one connection to each, a few at a time.

The nodes are fake, and named so: SSH is real, their engines only pull, and what all are told to run runs once. No time
is asserted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from derive.deploy.distribute import PACE, distribute
from derive.deploy.kept import Kept
from derive.deploy.plan import Plan
from derive.deploy.reach import reach
from derive.store.local import LocalStore
from speed.fake_nodes import FakeNode, fake_nodes
from speed.fleet import fleet_image, fleet_target, plan_of
from support.cli import CHECKOUT

MANY = 32
CONNECTING = 8
"""How many connections are opened at a time, as the pages say."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What came of asking all, planning for all, and bringing an image to all."""

    nodes: dict[str, FakeNode]
    plan: Plan
    asked: tuple[str, ...]
    image: str


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return asyncio.run(_fleet(tmp_path_factory.mktemp("fleet")))


async def _fleet(folder: Path) -> Fleet:
    target = fleet_target(CHECKOUT, MANY, str(folder / "nodes"))
    kept = Kept(folder=folder / "kept")
    with LocalStore(folder / "store") as store:
        wanted = fleet_image(store, 1 << 14)
        async with (
            fake_nodes(target.bundle.site, folder, once=True) as (settings, nodes),
            reach(target.bundle.site, settings) as reached,
        ):
            plan = await plan_of(reached, target, kept)
            await distribute(reached.nodes, wanted, store, lambda _node, _text: None)
    return Fleet(nodes, plan, tuple(sorted(kept.facts())), str(wanted.image.manifest.digest))


def test_a_plan_over_32_nodes_is_made_from_what_each_of_them_said(fleet: Fleet) -> None:
    assert fleet.asked == tuple(sorted(fleet.nodes))
    assert [one.name for one in fleet.plan.nodes] == [f"fake{rank}" for rank in range(MANY)]


def test_32_nodes_get_the_image_each_over_its_own_connection(fleet: Fleet) -> None:
    assert {name for name, node in fleet.nodes.items() if fleet.image in node.images} == {*fleet.nodes}


def test_each_of_32_nodes_is_connected_to_once_for_all_that_is_asked_and_brought(fleet: Fleet) -> None:
    assert {node.connections for node in fleet.nodes.values()} == {1}


def test_of_32_nodes_no_more_are_connected_to_or_pull_at_once_than_the_bounds_say(fleet: Fleet) -> None:
    most = fleet.nodes["fake0"].crowd.most
    assert 1 < most["connecting"] <= CONNECTING
    assert 1 < most["pulling"] <= PACE.at_once
