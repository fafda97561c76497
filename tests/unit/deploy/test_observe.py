# SPDX-License-Identifier: Apache-2.0
"""A container that is as its launch says has no difference, and any one thing that was changed is one difference."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from derive.canonical import Json
from derive.deploy import engines
from derive.deploy.model import Container, Mounted
from derive.deploy.observe import drift
from derive.recipes.resolved import Container as Told
from derive.render.launch import BindMount, Launch
from support.deploying import CONFIG, container_of
from support.golden import GOLDEN
from support.launching import IMAGE, SHAPES, project_shape, rendered, small_launch

LAUNCH = small_launch()
KNOWN = {str(IMAGE), str(CONFIG)}
STORES = ("overlay2", "containerd")

RECORDED_IMAGE = "sha256:a779efc5256e8c961213a1794ccfb7527ca92c28fc96412904ca1e8b39c55bbf"
RECORDED_CONFIG = "sha256:2ea545506d2ce1fed2650cb08d5fd2bf97dc86e46f01334ec3208d9ad62e16bb"


class Recorded:
    """Answers what real engines of both stores were recorded to say of one container."""

    def __init__(self, store: str) -> None:
        self._said: Mapping[str, Any] = json.loads((GOLDEN / "deploy" / f"inspect-{store}.json").read_text())
        self.api = self

    def inspect_container(self, _: str) -> Any:
        return self._said["container"]

    def inspect_image(self, _: str) -> Any:
        return self._said["image"]

    def container(self) -> Container:
        """Return the container as the engine's reader sees it."""
        client: Any = self
        (found,) = engines.containers(client, ["rich"])
        return found


def recorded_launch() -> Launch:
    """Return the launch that the recorded container was started from: by ``docker run``, as the script does."""
    told = Told(
        ipc="host",
        devices=("/dev/fuse:/dev/fuse:rwm",),
        add_capabilities=("IPC_LOCK",),
        ulimits={"memlock": "65536:65536", "stack": "67108864:67108864", "nofile": "1024:2048"},
        security_options=("label=disable", "seccomp=unconfined"),
        shared_memory_bytes=1 << 26,
        memory_bytes=1 << 28,
        memory_swap_bytes=1 << 28,
        device_cgroup_rules=("c 226:* rw",),
    )
    return small_launch(
        name="rich",
        image=RECORDED_IMAGE,
        reference=f"localhost/probe@{RECORDED_IMAGE}",
        entrypoint=("/usr/bin/python3.13", "-m", "http.server"),
        arguments=("--bind", "127.0.0.1", "8081"),
        mounts=(
            BindMount(source="/var/lib/derive/small/launch", target="/launch", read_only=True),
            BindMount(source="/var/lib/derive/cache/5a5a5a5a5a5a", target="/cache", read_only=False),
        ),
        container=told,
        slice="/derive/x",
        labels={"io.derive.node": "spark1", "io.derive.launch-bundle": "sha256:" + "ab" * 32},
    )


@pytest.mark.parametrize("store", STORES)
def test_one_image_on_both_image_stores_is_judged_equal(store: str) -> None:
    found = Recorded(store).container()
    assert drift(recorded_launch(), found, {RECORDED_IMAGE, RECORDED_CONFIG}) == ()


@pytest.mark.parametrize("store", STORES)
def test_another_image_is_a_difference_on_both_image_stores(store: str) -> None:
    (found,) = drift(replace(recorded_launch(), image=str(IMAGE)), Recorded(store).container(), KNOWN)
    assert (found.field, found.expected) == ("image", str(IMAGE))
    assert found.got in (RECORDED_CONFIG, RECORDED_IMAGE)


@pytest.mark.parametrize(("recipe", "shape"), SHAPES)
def test_the_containers_of_every_shape_are_as_their_launches_say(recipe: str, shape: str) -> None:
    for launch in rendered(project_shape(recipe, shape)).launches:
        assert drift(launch, container_of(launch), KNOWN) == ()


def host(key: str, value: Json) -> Callable[[Container], Container]:
    """Return what changes one setting of the engine."""
    return lambda one: replace(one, host={**one.host, key: value})


def environment(**changed: str | None) -> Callable[[Container], Container]:
    """Return what sets variables, or with None takes them away."""

    def change(one: Container) -> Container:
        whole: dict[str, str | None] = {**dict(one.environment), **changed}
        return replace(one, environment=tuple((name, text) for name, text in whole.items() if text is not None))

    return change


def words(*given: str) -> Callable[[Container], Container]:
    """Return what gives the process other words after its entrypoint."""
    return lambda one: replace(one, arguments=given)


def mounts(*given: Mounted) -> Callable[[Container], Container]:
    """Return what adds mounts, or replaces those of the same target."""

    def change(one: Container) -> Container:
        by_target = {mount.target: mount for mount in (*one.mounts, *given)}
        return replace(one, mounts=tuple(by_target.values()))

    return change


MODEL = Mounted(type="bind", source="/home/operator/models", target="/model", read_only=True)
REST = ("--rows", "16", "--config", '{"a":"b c"}', "--quick")

CHANGES: Mapping[str, tuple[Callable[[Container], Container], str | None, str | None]] = {
    "state": (lambda one: replace(one, state="exited"), "running", "exited"),
    "name": (lambda one: replace(one, name="small-2"), "small", "small-2"),
    "image": (lambda one: replace(one, image_ids=("sha256:" + "0" * 64,)), str(IMAGE), "sha256:" + "0" * 64),
    "command": (lambda one: replace(one, entrypoint=("/bin/sh",)), "/usr/bin/serve now /model", "/bin/sh now /model"),
    "arguments.--rows": (words("now", "/model", "--rows", "32", *REST[2:]), "16", "32"),
    "arguments.--quick": (words("now", "/model", *REST[:-1]), "(alone)", None),
    "arguments.--slow": (words("now", "/model", *REST, "--slow", "yes"), None, "yes"),
    "arguments.--rows[2]": (words("now", "/model", *REST, "--rows", "8"), None, "8"),
    "arguments.--api-key": (words("now", "/model", *REST, "--api-key", "hush"), None, "(set, and not shown)"),
    "arguments": (words("now", "/model", *REST[2:], *REST[:2]), "in the launch's order", "in another order"),
    "environment.PLAIN": (environment(PLAIN="2"), "1", "2"),
    "environment.EMPTY": (environment(EMPTY=None), "", None),
    "environment.EXTRA": (environment(EXTRA=""), None, ""),
    "environment.LC_ALL": (environment(LC_ALL="de_DE"), "C.UTF-8", "de_DE"),
    "environment.HF_TOKEN": (environment(HF_TOKEN="hush"), None, "(set, and not shown)"),
    "mounts./model": (
        mounts(replace(MODEL, read_only=False)),
        "bind /home/operator/models read-only",
        "bind /home/operator/models read-write",
    ),
    "mounts./extra": (
        mounts(Mounted(type="volume", source="v1", target="/extra", read_only=False)),
        None,
        "volume v1 read-write",
    ),
    "labels.io.derive.node": (lambda one: replace(one, labels={}), "spark1", None),
    "container.network": (host("NetworkMode", "bridge"), "host", "bridge"),
    "container.ipc": (host("IpcMode", "shareable"), "host", "private"),
    "container.gpus": (host("DeviceRequests", None), "all", None),
    "container.devices": (host("Devices", []), "/dev/infiniband:/dev/infiniband:rwm", None),
    "container.device-cgroup-rules": (host("DeviceCgroupRules", ["c 226:* rwm"]), "c 226:* rw", "c 226:* rwm"),
    "container.add-capabilities": (host("CapAdd", ["IPC_LOCK", "SYS_ADMIN"]), "IPC_LOCK", "IPC_LOCK SYS_ADMIN"),
    "container.CapDrop": (host("CapDrop", ["ALL"]), None, "['ALL']"),
    "container.security-options": (
        host("SecurityOpt", ["label=disable"]),
        "label=disable seccomp=unconfined",
        "label=disable",
    ),
    "container.ulimits": (
        host("Ulimits", [{"Name": "memlock", "Soft": -1, "Hard": -1}]),
        "memlock=-1:-1 stack=67108864:67108864",
        "memlock=-1:-1",
    ),
    "container.shared-memory-bytes": (host("ShmSize", 1 << 26), str(1 << 34), str(1 << 26)),
    "container.memory-bytes": (host("Memory", 0), str(112 << 30), None),
    "container.memory-swap-bytes": (host("MemorySwap", -1), str(112 << 30), "-1"),
    "container.slice": (host("CgroupParent", ""), "derive-small.slice", ""),
    "container.Privileged": (host("Privileged", True), None, "True"),
    "container.Tmpfs": (host("Tmpfs", {"/t": ""}), None, "{'/t': ''}"),
    "container.PidsLimit": (host("PidsLimit", 100), None, "100"),
    "container.RestartPolicy": (host("RestartPolicy", {"Name": "always", "MaximumRetryCount": 0}), None, "always"),
}


@pytest.mark.parametrize("field", CHANGES)
def test_one_thing_that_was_changed_is_the_one_difference(field: str) -> None:
    change, expected, got = CHANGES[field]
    (found,) = drift(LAUNCH, change(container_of(LAUNCH)), KNOWN)
    assert (found.field, found.expected, found.got) == (field, expected, got)


def test_no_container_at_all_is_one_difference() -> None:
    (found,) = drift(LAUNCH, None, KNOWN)
    assert (found.field, found.expected, found.got) == ("state", "running", None)


def test_a_container_with_older_arguments_differs_in_them_and_in_its_launch() -> None:
    older, newer = (
        replace(LAUNCH, arguments=(*LAUNCH.arguments, *more), labels={"io.derive.launch-bundle": label})
        for more, label in (((), "sha256:" + "1" * 64), (("--new",), "sha256:" + "2" * 64))
    )
    fields = [one.field for one in drift(newer, container_of(older), KNOWN)]
    assert fields == ["arguments.--new", "labels.io.derive.launch-bundle"]


def test_a_container_of_which_only_a_mounted_file_changed_differs_in_its_launch() -> None:
    files = rendered(project_shape("probe", "triangle"))
    launch = files.launches[0]
    before = container_of(launch, labels={**launch.labels, "io.derive.launch-bundle": "sha256:" + "0" * 64})
    (found,) = drift(launch, before, KNOWN)
    assert (found.field, found.expected) == ("labels.io.derive.launch-bundle", str(files.launch))


def test_a_variable_that_is_empty_and_one_that_is_absent_are_told_apart() -> None:
    (found,) = drift(LAUNCH, environment(EMPTY=None)(container_of(LAUNCH)), KNOWN)
    assert found.line() == "environment.EMPTY: expected '', got nothing"


def test_what_an_engine_cannot_hold_is_no_difference_there() -> None:
    dropped = host("MemorySwap", -1)(host("Memory", 0)(container_of(LAUNCH)))
    assert drift(LAUNCH, dropped, KNOWN, unheld={"Memory", "MemorySwap"}) == ()
    assert len(drift(LAUNCH, dropped, KNOWN)) == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("CapAdd", ["CAP_IPC_LOCK"]),
        ("SecurityOpt", ["seccomp:unconfined", "label:disable"]),
        ("RestartPolicy", {"Name": "", "MaximumRetryCount": 0}),
        ("PidsLimit", 0),
        ("CgroupnsMode", "host"),
        ("Sysctls", {}),
        ("DeviceRequests", [{"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu"]]}]),
    ],
)
def test_what_engines_write_in_several_ways_is_read_as_one(key: str, value: Json) -> None:
    assert drift(LAUNCH, host(key, value)(container_of(LAUNCH)), KNOWN) == ()


def test_without_an_entrypoint_of_its_own_the_images_runs_and_words_are_compared() -> None:
    launch = replace(LAUNCH, entrypoint=())
    found = container_of(launch, entrypoint=("/entry",))
    assert drift(launch, found, KNOWN) == ()
    assert [one.field for one in drift(launch, replace(found, arguments=("/model",)), KNOWN)] == [
        "arguments.--config",
        "arguments.--quick",
        "arguments.--rows",
    ]


def test_a_value_cannot_leave_its_line() -> None:
    (found,) = drift(LAUNCH, environment(PLAIN="1\n\x1b[31m")(container_of(LAUNCH)), KNOWN)
    assert found.line() == "environment.PLAIN: expected 1, got 1\\n\\u001b[31m"
