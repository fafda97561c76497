# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.recipes.resolved import Container
from derive.render.docker_run import options, process_lines
from derive.render.launch import BindMount
from support.launching import small_launch


def test_a_container_that_asks_for_nothing_gets_nothing_but_its_name_group_and_network() -> None:
    launch = small_launch(container=Container(), labels={}, mounts=(), environment={}, entrypoint=())
    assert options(launch) == (
        "--pull=never",
        "--name=small",
        "--cgroup-parent=derive-small.slice",
        "--network=host",
        "--stop-timeout=60",
    )


def test_labels_and_variables_are_sorted_and_an_empty_variable_is_set() -> None:
    launch = small_launch(environment={"B": "", "A": "1"}, labels={"b": "2", "a": "1"})
    assert [word for word in options(launch) if word.startswith(("--env", "--label"))] == [
        "--label=a=1",
        "--label=b=2",
        "--env=A=1",
        "--env=B=",
    ]


def test_a_mounts_path_may_hold_what_separates_fields() -> None:
    launch = small_launch(mounts=(BindMount(source='/a,b"c', target="/d e", read_only=True),))
    assert '--mount=type=bind,"source=/a,b""c",target=/d e,readonly' in options(launch)


def test_further_words_of_the_entrypoint_come_before_the_arguments() -> None:
    launch = small_launch(entrypoint=("/bin/sh", "-c", "x"), arguments=("a", "--b", "c", "d", "--e", "--f"))
    assert "--entrypoint=/bin/sh" in options(launch)
    assert process_lines(launch) == (("-c",), ("x",), ("a",), ("--b", "c", "d"), ("--e",), ("--f",))
