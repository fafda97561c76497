# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an import is told where it stands in what is imported, and never as a fault of derive itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from derive.errors import InputErrors
from derive.importing.argv import typed
from derive.importing.plan import Imported, Request, Source, import_files
from derive.project import load_launching
from support.former import cluster, encoded, node_map

FILES = load_launching(Path(__file__).parents[3])
LONG = "9" * 5000
Edit = Callable[[dict[str, Any]], object]


def imported(edit: Edit, edit_map: Edit = lambda _: None) -> Imported:
    document, nodes = cluster(4), node_map(4)
    edit(document)
    edit_map(nodes)
    clusters = (Source(file="cluster.json", data=encoded(document)),)
    maps = (Source(file="nodes.json", data=encoded(nodes)),)
    return import_files(Request(name="served", image="ds41f", clusters=clusters, maps=maps), FILES)


def told(edit: Edit, edit_map: Edit = lambda _: None) -> list[str]:
    with pytest.raises(InputErrors) as refused:
        imported(edit, edit_map)
    return [one.where for one in refused.value.problems()]


def docker(word: str) -> Edit:
    return lambda document: document["container"]["docker_run_args"].append(word)


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        (lambda c: c["host"].update(memguard_gib=2**52), "host.memguard_gib"),
        (lambda c: c["host"].update(memguard_interval_seconds=99), "host.memguard_interval_seconds"),
        (lambda c: c["container"].update(name="A B"), "container.name"),
        (lambda c: c["deployment"].update(ready_url="http://[::1/"), "deployment.ready_url"),
        (lambda c: c["deployment"].update(ready_url="http://127.0.0.1:8000/a b"), "deployment.ready_url"),
        (lambda c: c["distributed"].update(master_port=LONG), "distributed.master_port"),
        (lambda c: c["environment"].update({"A\nB": "1"}), "environment.A\\nB"),
        (lambda c: c["environment"].update(A="\x1b"), "environment.A"),
        (lambda c: c["fabric"].update(transport="nope"), "fabric.transport"),
        (lambda c: c["serve_args"].extend(["--max-num-seqs", "200000000"]), "serve_args: --max-num-seqs"),
        (docker("--gpus=device=0"), "container.docker_run_args: --gpus=device=0"),
        (docker(f"--memory={LONG}g"), f"container.docker_run_args: --memory={LONG}"),
        (docker(f"--ulimit=nofile={LONG}"), f"container.docker_run_args: --ulimit=nofile={LONG}"),
    ],
)
def test_a_value_that_no_recipe_can_have_is_told_at_its_key_of_the_cluster_file(edit: Edit, place: str) -> None:
    (where,) = told(edit)
    assert where == f"cluster.json: {place[:120]}"


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        (lambda m: m["nodes"][1].update(name="a b"), "nodes.json: nodes[1].name"),
        (lambda m: m["nodes"][2].update(management_ip="x"), "nodes.json: nodes[2].management_ip"),
        (lambda m: m.update(ssh_user="a b"), "nodes.json: ssh_user"),
        (lambda m: m["nodes"][0]["roce_peer_hcas"].update({"1": ["a b", "c"]}), "nodes.json"),
        (lambda m: m["nodes"][0].update(name="\ud800"), "nodes.json: nodes[0].name"),
        (
            lambda m: m["nodes"][0]["roce_peer_hcas"].update({"1": ["\ud800"]}),
            "nodes.json: nodes[0].roce_peer_hcas.1[0]",
        ),
        (
            lambda m: m["nodes"][0]["roce_peer_hcas"].update({LONG: ["a"]}),
            f"nodes.json: nodes[0].roce_peer_hcas.{LONG}",
        ),
    ],
)
def test_a_value_that_no_site_can_have_is_told_at_its_key_of_the_node_map(edit: Edit, place: str) -> None:
    assert place in told(lambda _: None, edit)


def test_the_rank_of_a_node_is_not_its_place_in_the_map() -> None:
    def turned(nodes: dict[str, Any]) -> None:
        nodes["nodes"].reverse()
        nodes["nodes"][0]["name"] = "a b"

    assert told(lambda _: None, turned) == ["nodes.json: nodes[0].name"]


def test_a_home_that_a_cluster_file_says_is_told_there() -> None:
    assert told(lambda c: c["host"].update(home="a\nb")) == ["cluster.json: host.home"]


def test_half_of_a_surrogate_pair_is_told_at_its_key() -> None:
    assert told(lambda c: c["environment"].update({"A": "\ud800", "B\udfff": "1"}))[:2] == [
        "cluster.json: environment",
        "cluster.json: environment.A",
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"image":{"decimal":"1"}}',
        '{"image":NaN}',
        '[{"image":NaN}]',
        '{"a":"\\ud800"}',
        '{"a":1,"a":2}',
        f'{{"a":{LONG}}}',
        "{NaN}",
        '"a"',
    ],
)
def test_json_of_which_the_same_text_would_not_come_back_stays_text(text: str) -> None:
    assert typed(text) == text
    assert imported(lambda c: c["serve_args"].extend(["--limit-mm-per-prompt", text])).whole


@pytest.mark.parametrize("word", ["NaN", '{"a":NaN}', '{"a":null}', "[1]"])
def test_a_loose_word_among_the_arguments_is_a_value_of_the_option_before(word: str) -> None:
    assert '"image": 4' not in imported(lambda c: c["serve_args"].append(word)).recipe


def test_a_stop_timeout_of_thousands_of_digits_has_no_place() -> None:
    assert not imported(docker(f"--stop-timeout={LONG}")).whole


def test_a_name_that_no_recipe_can_have_is_refused_first() -> None:
    with pytest.raises(InputErrors) as refused:
        import_files(Request(name="a/b", image="ds41f", clusters=()), FILES)
    assert [one.where for one in refused.value.problems()] == ["--name"]
