# SPDX-License-Identifier: Apache-2.0
"""The files of a node: which there are, and what units say."""

from __future__ import annotations

import pytest

from derive.render.forms import created_folders
from derive.render.launch import BindMount
from derive.render.templates import Templates
from derive.render.units import cgroup, guard_words
from support.launching import example_site, node_files, project_files, project_shape, small_launch

TEMPLATES = Templates(project_files())
SITE = example_site(project_shape("probe", "triangle"))


def unit(files: dict[str, bytes], name: str) -> list[str]:
    return files[f"systemd/{name}"].decode().splitlines()


def test_each_node_has_every_form_of_its_launch() -> None:
    assert list(node_files(small_launch(), SITE, TEMPLATES)) == [
        "await-guard",
        "compose.yaml",
        "container.json",
        "environment.env",
        "netplan.yaml",
        "run",
        "systemd/derive-small-guard-startup.service",
        "systemd/derive-small-guard-steady.service",
        "systemd/derive-small.service",
        "systemd/derive-small.slice",
    ]


def test_a_service_without_a_guard_is_bound_to_none() -> None:
    files = node_files(small_launch(guard=()), SITE, TEMPLATES)
    assert [path for path in files if "guard" in path] == []
    assert "guard" not in files["systemd/derive-small.service"].decode()


def test_the_service_runs_the_script_and_is_bound_to_the_guard_of_its_start() -> None:
    lines = unit(node_files(small_launch(), SITE, TEMPLATES), "derive-small.service")
    for line in (
        "BindsTo=derive-small-guard-startup.service",
        "After=derive-small-guard-startup.service",
        "ExecStart=bash /var/lib/derive/small/current/run",
        "ExecStop=docker stop --time 60 small",
        "ExecStartPre=mkdir --parents /var/lib/derive/cache/5a5a5a5a5a5a",
        "TimeoutStopSec=90",
    ):
        assert line in lines


def test_units_name_the_guard_by_its_path_and_options() -> None:
    launch = small_launch()
    lines = unit(node_files(launch, SITE, TEMPLATES), "derive-small-guard-startup.service")
    assert (
        "ExecStart=/var/lib/derive/guard/5a5a5a5a5a5a/memguard --container small --phase startup"
        " --cgroup /sys/fs/cgroup/derive.slice/derive-small.slice --floor 5368709120 --interval 0.25 --wait 120"
        " --ready-file /run/derive/small/guard-startup --evidence /var/lib/derive/small/evidence"
    ) in lines
    assert {"OOMScoreAdjust=-1000", "LimitMEMLOCK=infinity", "TimeoutStartSec=150"} <= set(lines)


def test_the_steady_guard_takes_over_when_it_guards_and_not_before() -> None:
    lines = unit(node_files(small_launch(), SITE, TEMPLATES), "derive-small-guard-steady.service")
    current = "/var/lib/derive/small/current"
    awaits = f"ExecStartPost=bash {current}/await-guard $MAINPID /run/derive/small/guard-steady guarding"
    takes_over = "ExecStartPost=-systemctl kill derive-small-guard-startup.service"
    assert lines.index(takes_over) == lines.index(awaits) + 1


def test_a_steady_guard_without_one_before_it_has_nobody_to_take_over_from() -> None:
    launch = small_launch(guard=small_launch().guard[1:])
    files = node_files(launch, SITE, TEMPLATES)
    assert not any("startup" in line for line in unit(files, "derive-small-guard-steady.service"))


@pytest.mark.parametrize(
    ("slice_", "path"),
    [
        ("derive-a.slice", "/sys/fs/cgroup/derive.slice/derive-a.slice"),
        ("derive-a-b.slice", "/sys/fs/cgroup/derive.slice/derive-a.slice/derive-a-b.slice"),
    ],
)
def test_each_hyphen_of_a_slice_is_a_level_of_its_group(slice_: str, path: str) -> None:
    assert cgroup(small_launch(slice=slice_)) == path


def test_the_guards_floor_is_in_bytes_and_its_interval_as_it_was_typed() -> None:
    launch = small_launch()
    words = guard_words(launch, launch.guard[1])
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert (options["--floor"], options["--interval"], options["--wait"]) == (str(3 * 2**30), "2", "0")


def test_only_writable_folders_of_derive_are_made() -> None:
    mounts = (
        BindMount(source="/var/lib/derive/cache/x", target="/cache", read_only=False),
        BindMount(source="/var/lib/derive/y", target="/y", read_only=True),
        BindMount(source="/var/lib/derivex", target="/x", read_only=False),
        BindMount(source="/home/operator", target="/home", read_only=False),
    )
    assert created_folders(small_launch(mounts=mounts)) == ("/var/lib/derive/cache/x",)
