# SPDX-License-Identifier: Apache-2.0
"""What deploys are judged by, as values: targets, containers as engines show them, machines, and what nodes remember.

No engine and no machine stands behind them: they say what one would say whose launch or site they were made from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from derive.canonical import Digest, Json
from derive.deploy.machine import EngineSeen, Machine, MountSeen
from derive.deploy.machine_values import Disk
from derive.deploy.model import Container, Mounted, NodeState, Served, Target
from derive.fabric.rule import SiteInput
from derive.fabric.site import Site
from derive.render.launch import Launch
from support.launching import IMAGE, example_site, project_shape, rendered
from support.network_facts import facts_of_site

CONFIG = Digest("c0" * 32)
"""Stands for the digest of the image's config."""
NOW_S = 1_796_059_800
GIB = 1 << 30


def served(release: str = "probe-2", digit: str = "2", **changes: Any) -> Served:
    """Return a release that is served; ``digit`` makes its digests."""
    one = Served(
        release=release,
        release_digest=Digest(digit * 64),
        recipe="probe",
        shape="triangle",
        image=IMAGE,
        shape_bundle=Digest(digit * 63 + "a"),
        launch_bundle=Digest(digit * 63 + "b"),
    )
    return replace(one, **changes)


@cache
def target(recipe: str = "probe", shape: str = "triangle", release: str = "probe-2") -> Target:
    """Return what a release of a shape is at the example of its cabling, taken for a real site."""
    resolved = project_shape(recipe, shape)
    bundle = rendered(resolved, example_site(resolved, example=False, name="lab"))
    said = served(release, "2", recipe=recipe, shape=shape, shape_bundle=bundle.shape, launch_bundle=bundle.launch)
    return Target(served=said, bundle=bundle)


def site_of(wanted: Target) -> SiteInput:
    """Return the target's site, as if it had been read from a file."""
    site = wanted.bundle.site
    return SiteInput(site=site, file="site.toml", cable_numbers=tuple(range(len(site.cables))))


def container_of(launch: Launch, **changes: Any) -> Container:
    """Return the container of a launch as an engine shows it, running, with all that the image sets."""
    image = (("LC_ALL", "C.UTF-8"), ("PATH", "/usr/bin:/bin"))
    own = {**dict(image), **launch.environment}
    one = Container(
        id="ab" * 32,
        name=launch.name,
        image=launch.reference,
        image_ids=(str(CONFIG), launch.image),
        entrypoint=launch.entrypoint[:1],
        arguments=(*launch.entrypoint[1:], *launch.arguments),
        environment=tuple(sorted(own.items(), reverse=True)),
        image_environment=image,
        mounts=tuple(
            Mounted(type="bind", source=one.source, target=one.target, read_only=one.read_only)
            for one in reversed(launch.mounts)
        ),
        labels={**launch.labels, "io.derive.derivation": "sha256:" + "e" * 64},
        host=host_config(launch),
        state="running",
        exit_code=None,
        oom_killed=False,
        error="",
        started="2026-11-30T17:28:34.008585872Z",
        finished=None,
        pid=4242,
        restarts=0,
    )
    return replace(one, **changes)


def host_config(launch: Launch) -> dict[str, Json]:
    """Return what an engine writes as ``HostConfig`` for a launch."""
    told = launch.container
    found: dict[str, Json] = {
        "Binds": None,
        "NetworkMode": told.network,
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,
        "CapAdd": list(told.add_capabilities) or None,
        "CapDrop": None,
        "CgroupnsMode": "private",
        "IpcMode": told.ipc or "private",
        "OomScoreAdj": 0,
        "PidMode": "",
        "Privileged": False,
        "PortBindings": {},
        "SecurityOpt": list(told.security_options) or None,
        "ShmSize": told.shared_memory_bytes or 64 << 20,
        "Runtime": "runc",
        "Memory": told.memory_bytes or 0,
        "MemorySwap": told.memory_swap_bytes if told.memory_swap_bytes is not None else 2 * (told.memory_bytes or 0),
        "CgroupParent": launch.slice,
        "Devices": [_device(text) for text in told.devices],
        "DeviceCgroupRules": list(told.device_cgroup_rules) or None,
        "DeviceRequests": None if told.gpus is None else [_request(told.gpus)],
        "PidsLimit": None,
        "Ulimits": [_ulimit(name, text) for name, text in sorted(told.ulimits.items(), reverse=True)],
    }
    return found


def _device(text: str) -> Json:
    source, _, rest = text.partition(":")
    where, _, rights = rest.partition(":")
    return {"PathOnHost": source, "PathInContainer": where or source, "CgroupPermissions": rights or "rwm"}


def _request(gpus: str) -> Json:
    count = -1 if gpus == "all" else int(gpus)
    return {"Driver": "", "Count": count, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}


def _ulimit(name: str, text: str) -> Json:
    soft, _, hard = text.partition(":")
    return {"Name": name, "Soft": int(soft), "Hard": int(hard)}


def serving(wanted: Target) -> dict[str, tuple[Container, ...]]:
    """Return the containers of all nodes while a target serves."""
    return {launch.node: (container_of(launch),) for launch in wanted.bundle.launches}


ENGINE = EngineSeen(
    version="26.1.5",
    image_store="graphdriver",
    cgroup_driver="systemd",
    cgroup_version=2,
    architecture="aarch64",
    runtimes=frozenset({"nvidia", "runc"}),
    devices=frozenset(),
    root="/var/lib/docker",
)


def machines(wanted: Target, **changes: Any) -> dict[str, Machine]:
    """Return the machines of a site as they should be for a target, all of them with changes."""
    return {name: replace(one, **changes) for name, one in _machines(wanted).items()}


def _machines(wanted: Target) -> Mapping[str, Machine]:
    site, policy = wanted.bundle.site, wanted.bundle.resolved.host
    facts = dict(zip([node.name for node in site.nodes], facts_of_site(site), strict=True))
    swap = {} if policy.swap_file is None else {policy.swap_file: (policy.swap_bytes or 0) - 65536}
    return {
        launch.node: Machine(
            node=launch.node,
            host=launch.node,
            boot_id="b" * 36,
            clock_ns=NOW_S * 10**9 + 3_000_000,
            seen_ns=NOW_S * 10**9,
            user="operator",
            groups=frozenset({"docker", "operator"}),
            kernel=policy.kernel or "6.12.0-generic",
            architecture="aarch64" if wanted.bundle.resolved.platform == "linux/arm64" else "x86_64",
            page_size=policy.page_size or 4096,
            memory_total=128 * GIB,
            memory_available=120 * GIB,
            swap=swap,
            driver=policy.driver or "580.178.04",
            transparent_huge_pages=policy.transparent_huge_pages or "madvise",
            min_free_kbytes=policy.min_free_kbytes or 45166,
            modules=_modules(wanted),
            network=facts[launch.node],
            neighbours=None,
            disks={
                folder: Disk(folder=folder, free_bytes=500 * GIB, total_bytes=900 * GIB, device=1)
                for folder in (site.folder, "/var/lib/docker")
            },
            mounts={source: _there(source) for source in _sources(launch)},
            systemd=255,
            cgroup=2,
            controllers=frozenset({"memory"}),
            python=(3, 12, 3),
            sudo=True,
            listening=frozenset(),
            units={},
            unread=(),
            engine=replace(ENGINE),
        )
        for launch in wanted.bundle.launches
    }


def _modules(wanted: Target) -> dict[str, Any]:
    from derive.deploy.machine import MEMORY_SAVER, PACKING, Module

    policy = wanted.bundle.resolved.host
    stock = Module(name="nvidia", version=policy.driver, srcversion="5" * 23, parameters={})
    saver = replace(
        stock,
        name=MEMORY_SAVER,
        srcversion=policy.memory_saver_srcversion,
        parameters={PACKING: "Y"} if policy.memory_saver else {},
    )
    return {one.name: one for one in (stock, *([saver] if policy.memory_saver is not None else []))}


def _sources(launch: Launch) -> Sequence[str]:
    return (*(one.source for one in launch.mounts), *(one.partition(":")[0] for one in launch.container.devices))


def _there(source: str) -> MountSeen:
    return MountSeen(source=source, kind="folder", readable=True, writable=True, reason=None)


def state(step: str = "serving", **changes: Any) -> NodeState:
    """Return what a node remembers while ``probe-2`` serves, with changes."""
    now = served()
    one = NodeState(
        service="probe",
        deploy="d2",
        step=step,
        wanted=now,
        current=now,
        healthy=(now, served("probe-1", "1")),
        at_s=NOW_S,
    )
    return replace(one, **changes)


def with_site(wanted: Target, site: Site) -> Target:
    """Return a target at another site, its files as they were."""
    return replace(wanted, bundle=replace(wanted.bundle, site=site))
