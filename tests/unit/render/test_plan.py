# SPDX-License-Identifier: Apache-2.0
"""What each node is told, from the recipes and example sites of this checkout."""

from __future__ import annotations

import json
from dataclasses import replace

from derive.canonical import Digest
from derive.recipes.resolved import Mount
from derive.render.launch import BindMount, Launch
from derive.render.plan import launches
from support.launching import IMAGE, example_site, project_fabric, project_shape

RING = project_shape("ds41f", "tp4-ring")


def planned(**changes: object) -> tuple[Launch, ...]:
    resolved = replace(RING, **changes)  # type: ignore[arg-type]
    return launches(resolved, example_site(resolved), IMAGE, project_fabric())


def test_there_is_a_launch_for_each_node_in_order_of_rank() -> None:
    site = example_site(RING)
    assert [(launch.node, launch.rank, launch.nodes) for launch in planned()] == [
        (node.name, node.rank, 4) for node in site.nodes
    ]


def test_each_rank_is_told_its_number_and_the_heads_address_and_all_but_the_head_are_headless() -> None:
    head = example_site(RING).nodes[0].address
    for launch in planned():
        words = ("--node-rank", str(launch.rank), "--master-addr", head, "--master-port", "9999")
        own = (*words, *(() if launch.rank == 0 else ("--headless",)))
        assert launch.arguments[-len(own) :] == own
        assert launch.arguments.count("--headless") == (launch.rank > 0)


def test_a_program_of_its_own_on_each_node_is_told_of_no_rank() -> None:
    resolved = project_shape("probe", "ring4")
    for launch in launches(resolved, example_site(resolved), IMAGE, project_fabric()):
        assert "--node-rank" not in launch.arguments
        assert launch.environment == resolved.environment


def test_the_environment_is_the_shapes_with_the_nodes_own_over_it() -> None:
    site = example_site(RING)
    for launch in planned():
        assert launch.environment["VLLM_HOST_IP"] == site.nodes[launch.rank].address
        assert {name: launch.environment[name] for name in RING.environment} == RING.environment


def test_sources_of_mounts_are_the_sites_and_only_the_cache_of_the_image_is_writable() -> None:
    site = example_site(RING, home="/home/x", folder="/srv/derive", models="/models/hub")
    mounts = (
        Mount(name="a", source="{home}/a", target="/a", read_only=True),
        Mount(name="b", source="{folder}/b{home}", target="/b", read_only=True),
        Mount(name="c", source="/dev/{models}", target="/c", read_only=True),
        Mount(name="d", source="{models}", target="/d", read_only=True),
    )
    resolved = replace(RING, mounts=mounts, cache="/cache")
    (launch, *_) = launches(resolved, site, IMAGE, project_fabric())
    assert launch.mounts == (
        BindMount(source="/home/x/a", target="/a", read_only=True),
        BindMount(source="/srv/derive/b{home}", target="/b", read_only=True),
        BindMount(source="/dev/{models}", target="/c", read_only=True),
        BindMount(source="/models/hub", target="/d", read_only=True),
        BindMount(source="/srv/derive/cache/5a5a5a5a5a5a", target="/cache", read_only=False),
        BindMount(source="/srv/derive/ds41f/current", target="/run/derive/launch", read_only=True),
    )


def test_the_model_is_one_mount_of_its_whole_folder_of_the_cache() -> None:
    assert RING.model is not None
    (source,) = {mount.source for mount in planned()[0].mounts if mount.target == "/model"}
    assert source.endswith(f"/hub/{RING.model.folder}")


def test_another_image_has_another_cache_and_another_guard() -> None:
    site = example_site(RING)
    first, second = (launches(RING, site, image, project_fabric())[0] for image in (IMAGE, Digest("0" * 64)))
    assert {mount.source for mount in first.mounts} & {mount.source for mount in second.mounts} == {
        mount.source for mount in first.mounts if mount.read_only
    }


def test_an_image_is_named_by_its_digest_in_the_sites_registry() -> None:
    for images in ("127.0.0.1:5170/derive", "host:5000/x"):
        (launch, *_) = launches(RING, example_site(RING, images=images), IMAGE, project_fabric())
        assert launch.reference == f"{images}/ds41f@{IMAGE}"


def test_a_placeholder_in_an_argument_reaches_the_process_as_it_stands() -> None:
    value = {"prompt": "{{ x }}", "folder": "{model}"}
    (launch, *_) = planned(arguments={"speculative-config": value})
    text = launch.arguments[launch.arguments.index("--speculative-config") + 1]
    assert json.loads(text) == value
