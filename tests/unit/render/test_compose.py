# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.recipes.resolved import Container
from derive.render.compose import compose_file
from support.launching import small_launch


def test_what_a_launch_leaves_out_is_left_out_as_an_empty_list_would_take_away_the_images_own() -> None:
    launch = small_launch(container=Container(), entrypoint=(), arguments=(), mounts=(), labels={}, environment={})
    assert compose_file(launch).decode().splitlines()[1:] == [
        "services:",
        "  small:",
        '    container_name: "small"',
        f'    image: "{launch.reference}"',
        '    pull_policy: "never"',
        '    cgroup_parent: "derive-small.slice"',
        '    network_mode: "host"',
        '    stop_grace_period: "60s"',
    ]


def test_a_number_of_gpus_is_a_number_and_all_of_them_a_word() -> None:
    for gpus, written in (("all", 'count: "all"'), ("2", "count: 2")):
        assert written in compose_file(small_launch(container=Container(gpus=gpus))).decode()


def test_a_dollar_is_doubled_in_values_and_an_empty_variable_is_the_empty_text() -> None:
    text = compose_file(small_launch(arguments=("$x", "${y}"), environment={"A": "$$", "B": ""})).decode()
    for line in ('- "$$x"', '- "$${y}"', 'A: "$$$$"', 'B: ""'):
        assert line in text
