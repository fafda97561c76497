# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from derive.errors import InputErrors, Problem
from derive.fabric.examples import example
from derive.fabric.load import load_site
from derive.fabric.site import Cabling, Site
from derive.importing.account import Row, counts
from derive.importing.plan import Imported, Request, Source, import_files
from derive.project import load_launching
from derive.recipes.arguments import words
from derive.recipes.load import load_recipe
from derive.recipes.resolve import resolve
from derive.recipes.resolved import Resolved
from support.former import cluster, encoded, node_map
from support.golden import check_golden

FILES = load_launching(Path(__file__).parents[3])


def imported(*clusters: dict[str, Any], maps: tuple[dict[str, Any], ...] = (), **options: str | None) -> Imported:
    sources = tuple(Source(file=f"{at}.json", data=encoded(one)) for at, one in enumerate(clusters))
    given = tuple(Source(file=f"nodes{at}.json", data=encoded(one)) for at, one in enumerate(maps))
    return import_files(Request(name="served", image="ds41f", clusters=sources, maps=given, **options), FILES)  # type: ignore[arg-type]


def shape(found: Imported, name: str) -> Resolved:
    return resolve(load_recipe({**FILES, "recipes/served.toml": found.recipe.encode()}, "served"), name)


def site(found: Imported, name: str = "site") -> Site:
    return load_site(found.sites[name].encode(), name)


def rows(found: Imported, state: str) -> list[Row]:
    return [row for row in found.rows if row.state == state]


def problems(*clusters: dict[str, Any], maps: tuple[dict[str, Any], ...] = ()) -> tuple[Problem, ...]:
    with pytest.raises(InputErrors) as refused:
        imported(*clusters, maps=maps)
    return refused.value.problems()


def test_two_files_and_a_map_become_one_recipe_and_a_site() -> None:
    found = imported(cluster(3), cluster(4), maps=(node_map(4),))
    assert found.whole
    check_golden("importing/served.toml", found.recipe)
    check_golden("importing/site.toml", found.sites["site"])
    rows = [f"{row.state}  {row.file}: {row.key}  {row.place}  {row.note}".rstrip() for row in found.rows]
    check_golden("importing/account.txt", "\n".join(rows) + "\n")


def test_memory_is_said_to_be_added_and_the_recipe_says_all_that_the_file_said() -> None:
    found = imported(cluster(4))
    assert [row.key for row in rows(found, "to be added")] == ["memory"]
    assert found.whole


def test_an_image_of_which_nothing_says_that_it_has_vllm_is_noted() -> None:
    source = Source(file="0.json", data=encoded(cluster(4)))
    notes = {
        image: import_files(Request(name="served", image=image, clusters=(source,)), FILES).notes
        for image in ("ds41f", "probe")
    }
    assert any("nothing says that image probe has it" in note for note in notes["probe"])
    assert not any("nothing says" in note for note in notes["ds41f"])


def test_the_order_of_keys_is_no_matter() -> None:
    def turned(value: Any) -> Any:
        return {key: turned(value[key]) for key in reversed(value)} if isinstance(value, dict) else value

    assert shape(imported(turned(cluster(4))), "tp4-ring") == shape(imported(cluster(4)), "tp4-ring")


def test_every_argument_and_variable_of_the_file_is_what_the_shape_has() -> None:
    found = shape(imported(cluster(3)), "tp3-triangle")
    assert found.arguments["long-prefill-token-threshold"] == 4096 - 8 * 6
    assert found.arguments["gpu-memory-utilization"] == {"decimal": "0.82"}
    assert found.arguments["scheduler-reserve-full-isl"] is False
    assert found.environment["VLLM_PLUGINS"] == ""
    assert "GLOO_SOCKET_IFNAME" not in found.environment
    assert found.positional == ("/model/snapshots/dba1be0a40aa45a94ad051997016db3960a90277",)
    assert found.container.memory_bytes == 112 * 2**30
    assert [(one.target, one.read_only) for one in found.mounts if one.name != "model"] == [("/dev/dri/card0", False)]


def test_a_derived_value_that_differs_from_its_rule_is_told() -> None:
    document = cluster(3)
    words = document["serve_args"]
    words[words.index("--long-prefill-token-threshold") + 1] = "4096"
    found = imported(document)
    assert not found.whole
    (row,) = rows(found, "differs")
    assert row.key == "serve_args: --long-prefill-token-threshold"
    assert row.note == "the file says 4096, tp3-triangle has 4048, by rule long-prefill"


def test_a_variable_that_the_transport_gives_otherwise_is_told() -> None:
    document = cluster(4)
    document["environment"]["NCCL_NET"] = "Socket"
    (row,) = rows(imported(document), "differs")
    assert (row.key, row.note) == ("environment.NCCL_NET", "the file says Socket, tp4-ring has IB")


def test_a_key_without_a_place_is_told_and_the_recipe_written_all_the_same() -> None:
    document = cluster(4)
    document["fabric"]["mesh_paths"] = 2
    document["container"]["docker_run_args"] += ["--sysctl=net.core.somaxconn=1024", "--restart=always"]
    document["serve_args"] += ["--extra", '{"a": null}']
    found = imported(document)
    assert [row.key for row in rows(found, "unplaced")] == [
        "container.docker_run_args: --sysctl=net.core.somaxconn=1024",
        "serve_args: --extra",
        "fabric.mesh_paths",
    ]
    assert counts(found.rows)["unplaced"] == 3
    assert not found.whole


def test_a_secret_is_neither_written_nor_told() -> None:
    document = cluster(4)
    document["environment"] |= {"HF_TOKEN": "hunter2", "MAX_TOKEN": "8192", "EMPTY_TOKEN": ""}
    document["container"]["docker_run_args"] += ["--env=DB_PASSWORD=hunter2", "-e", "PLAIN=1"]
    document["serve_args"] += ["--api-key", "hunter2"]
    found = imported(document)
    assert {row.key for row in rows(found, "unplaced")} == {
        "environment.HF_TOKEN", "container.docker_run_args: --env DB_PASSWORD", "serve_args: --api-key",
    }  # fmt: skip
    assert "hunter2" not in found.recipe + repr(found.rows)
    assert (
        shape(found, "tp4-ring").environment.items() >= {"MAX_TOKEN": "8192", "EMPTY_TOKEN": "", "PLAIN": "1"}.items()
    )


def test_a_value_of_the_site_that_is_left_in_the_recipe_is_noted() -> None:
    document = cluster(4)
    document["environment"]["METRICS"] = "http://192.0.2.13:9090"
    found = imported(document, maps=(node_map(4),))
    assert found.notes == ("environment.METRICS holds 192.0.2.13, which is this site's alone",)


def test_every_key_of_every_file_is_accounted_for() -> None:
    document = cluster(4)
    document["strange"] = {"deep": {"key": 1}, "empty": {}}
    found = imported(document, maps=(node_map(4),))
    assert {row.key for row in rows(found, "unplaced")} == {"strange.deep.key", "strange.empty"}


@pytest.mark.parametrize(("option", "named"), [("--tensor-parallel-size", "--tensor-parallel-size differs"),
                                               ("--nnodes", "differs from the number of nodes")])  # fmt: skip
def test_a_tensor_parallel_size_that_is_not_the_number_of_nodes_is_refused(option: str, named: str) -> None:
    document = cluster(4)
    words = document["serve_args"]
    words[words.index(option) + 1] = "3"
    assert any(named in one.message for one in problems(document))


def test_two_nodes_are_refused() -> None:
    document = cluster(3)
    document["serve_args"] = [word if word != "3" else "2" for word in document["serve_args"]]
    (problem,) = problems(document)
    assert problem.message.startswith("neither three nodes nor four")


def test_faults_in_three_files_are_told_at_once_each_with_its_place() -> None:
    triangle, ring, nodes = cluster(3), cluster(4), node_map(4)
    triangle["host"]["memguard_gib"] = "three"
    ring["container"]["mounts"][0] = "no list"
    nodes["nodes"][1]["roce_peer_hcas"]["0"] = ["rocep1s0f1"]
    assert [one.where for one in problems(triangle, ring, maps=(nodes,))] == [
        "0.json: host.memguard_gib",
        "1.json: container.mounts[0]",
        "nodes0.json: nodes[1].roce_peer_hcas.0",
    ]


def test_a_checkpoint_that_no_lock_pins_is_refused_with_those_that_are() -> None:
    document = cluster(4)
    document["container"]["mounts"][0][0] = document["container"]["mounts"][0][0][:-4] + "0000"
    (problem,) = problems(document)
    assert problem.message == "no lock pins this checkpoint"
    assert any("deepseek-v4-1-flash" in line for line in problem.detail)
    assert imported(document, model="deepseek-v4-1-flash").whole


def test_a_second_shape_of_one_name_must_be_named() -> None:
    (problem,) = problems(cluster(3), cluster(3))
    assert problem.hint == "name it, as in NAME=1.json"


def test_small_pages_are_a_shape_of_their_own() -> None:
    document = cluster(3)
    document["host"]["kernel"] = {"release": "7.0.0-1019-nvidia", "page_size": 4096, "memory_saver_required": False}
    found = imported(cluster(3), document)
    assert shape(found, "tp3-triangle-4k").host.page_size == 4096
    assert shape(found, "tp3-triangle").host.page_size == 65536


def test_the_one_recipe_form_gives_the_same_shapes_as_a_file_for_each() -> None:
    triangle, ring = cluster(3), cluster(4)
    shared = {key: value for key, value in triangle.items() if key not in ("environment", "serve_args", "fabric")}
    both = triangle["environment"].items() & ring["environment"].items()
    tables: dict[str, Any] = {}
    for name, one in (("three", triangle), ("four", ring)):
        words = one["serve_args"][1:]
        own = dict(one["environment"].items() - both)
        tables[name] = {"environment": own, "serve_args": words, "fabric": one["fabric"]}
        tables[name]["benchmark_reference"] = one["benchmark_reference"]
    whole = {**shared, "environment": dict(both), "serve_args": ["/models"], "default_shape": "four", "shapes": tables}
    found, apart = imported(whole), imported(triangle, ring)
    assert found.whole
    for name, other in (("three", "tp3-triangle"), ("four", "tp4-ring")):
        new, old = shape(found, name), shape(apart, other)
        assert (new.arguments, new.environment, new.promotion) == (old.arguments, old.environment, old.promotion)
    assert 'default-shape = "four"' in found.recipe
    assert any(row.key == "shapes.four.environment.NCCL_ALGO" for row in found.rows)


@pytest.mark.parametrize("name", ["tp4-ring", "tp3-triangle", "tp3-triangle-4k"])
def test_a_shape_of_this_project_written_in_the_old_form_comes_back_as_it_was(name: str) -> None:
    old = resolve(load_recipe(FILES, "ds41f"), name)
    document = cluster(old.nodes)
    document["serve_args"] = ["/models", *words(old)[len(old.positional) :]]
    document["environment"] = dict(old.environment)
    document["fabric"] = {"transport": old.transport}
    del document["kernel_backend"]
    found = imported(document)
    new = resolve(load_recipe({**FILES, "recipes/served.toml": found.recipe.encode()}, "served"))
    assert found.whole
    assert (new.arguments, new.environment) == (old.arguments, old.environment)
    assert (new.cabling, new.transport, new.tuning) == (old.cabling, old.transport, old.tuning)


def test_a_null_of_a_shape_removes_what_the_shapes_share() -> None:
    document = cluster(4)
    document["shapes"] = {"plain": {"environment": {"OMP_NUM_THREADS": None}}, "usual": {}}
    found = imported(document)
    assert "OMP_NUM_THREADS" not in shape(found, "plain").environment
    assert shape(found, "usual").environment["OMP_NUM_THREADS"] == "8"


def test_a_site_that_is_cabled_as_usual_says_nothing_of_cables() -> None:
    found = imported(cluster(3), maps=(node_map(3),))
    assert "[[cables" not in found.sites["site"]
    assert [cable.ports for cable in site(found).cables] == [(0, 1), (1, 0), (0, 1)]
    assert [node.address for node in site(found).nodes] == ["192.0.2.11", "192.0.2.12", "192.0.2.13"]


@pytest.mark.parametrize(("nodes", "cabling"), [(3, "triangle"), (4, "ring4")])
def test_a_usual_map_has_the_cables_of_the_example(nodes: int, cabling: Cabling) -> None:
    document = node_map(nodes)
    del document["nodes"][0]["roce_subnets"]
    found = imported(cluster(nodes), maps=(document,))
    assert site(found).cables == example(FILES, cabling).cables


def test_cables_that_are_crossed_are_paired_by_their_subnets() -> None:
    nodes = node_map(4)
    first = nodes["nodes"][0]
    first["roce_peer_hcas"]["1"].reverse()
    found = site(imported(cluster(4), maps=(nodes,)))
    (path, other) = found.cables[0].paths
    assert [end.device for end in path.ends] == ["roceP2p1s0f0", "roceP2p1s0f1"]
    assert [one.subnet for one in (path, other)] == ["10.12.2.0/24", "10.12.1.0/24"]


def test_subnets_of_another_scheme_are_kept_and_their_addresses_assumed() -> None:
    nodes = node_map(4)
    for row, device in ((0, "rocep1s0f0"), (1, "rocep1s0f1")):
        nodes["nodes"][row]["roce_subnets"][device] = "198.51.100.0/24"
    found = imported(cluster(4), maps=(nodes,))
    assert [end.address for end in site(found).cables[0].paths[0].ends] == ["198.51.100.1", "198.51.100.2"]
    note = "dgx1 and dgx2: addresses 198.51.100.1 and 198.51.100.2 are assumed, by the nodes' numbers"
    assert found.notes == (note,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[0].update(head=False), "the head is not the node of rank 0"),
        (lambda rows: rows[1].update(rank=5), "ranks that do not count from 0"),
        (lambda rows: rows[1].update(name="dgx1"), "two nodes share one of their names"),
        (lambda rows: rows[1].update(management_ip="192.0.2.11"), "two nodes share one of their management_ip"),
        (lambda rows: rows[0]["roce_peer_hcas"].update({"2": ["x"]}), "not the peers of rank 0"),
        (lambda rows: rows[0]["roce_subnets"].update(rocep1s0f0="10.9.9.0/24"), "no such subnet at the other end"),
        (
            lambda rows: rows[0]["roce_peer_hcas"].update({"3": ["rocep1s0f0", "roceP2p1s0f1"]}),
            "rocep1s0f0 leads to more than one peer",
        ),
    ],
)
def test_a_node_map_that_contradicts_itself_is_refused(change: Any, message: str) -> None:
    nodes = node_map(4)
    change(nodes["nodes"])
    assert message in {one.message for one in problems(cluster(4), maps=(nodes,))}


def test_the_master_must_be_the_node_of_rank_0() -> None:
    document = cluster(4)
    document["distributed"]["master_addr"] = "192.0.2.14"
    (problem,) = problems(document, maps=(node_map(4),))
    assert problem.where == "0.json: distributed.master_addr"


def test_what_is_each_nodes_own_stays_with_the_node() -> None:
    nodes = node_map(4)
    nodes["nodes"][2] |= {
        "ssh_host": "three", "roce_gid_index": 5, "management_interface": "eth0", "roce_traffic_class": 106,
    }  # fmt: skip
    found = site(imported(cluster(4), maps=(nodes,))).nodes
    assert (found[2].ssh_host, found[2].gid_index, found[2].interface, found[2].traffic_class) == (
        "three", "5", "eth0", "106",
    )  # fmt: skip
    assert (found[1].ssh_host, found[1].gid_index, found[1].interface) == ("dgx2", "3", "enP7s7")
