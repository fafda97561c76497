# SPDX-License-Identifier: Apache-2.0
"""A launch as a file of Docker Compose.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from derive.canonical import Json
from derive.recipes.resolved import Container
from derive.render.launch import BindMount, Launch
from derive.render.quoting import compose
from derive.render.yaml import encode_yaml


def compose_file(launch: Launch) -> bytes:
    """Return the file: one project with one service, both of the container's name."""
    document: dict[str, Json] = {"name": launch.name, "services": {launch.name: _service(launch)}}
    return encode_yaml({key: compose(value) for key, value in document.items()})


def _service(launch: Launch) -> dict[str, Json]:
    whole: dict[str, Json] = {
        "container_name": launch.name,
        "image": launch.reference,
        "pull_policy": "never",
        "cgroup_parent": launch.slice,
        **_container(launch.container),
        "labels": dict(sorted(launch.labels.items())),
        "volumes": [_volume(mount) for mount in launch.mounts],
        "environment": dict(sorted(launch.environment.items())),
        "entrypoint": list(launch.entrypoint),
        "command": list(launch.arguments),
    }
    # An empty list would mean another thing than none: it takes the image's own away.
    return {key: value for key, value in whole.items() if value not in (None, [], {})}


def _container(container: Container) -> dict[str, Json]:
    return {
        "network_mode": container.network,
        "ipc": container.ipc,
        "deploy": _gpus(container.gpus),
        "devices": list(container.devices),
        "device_cgroup_rules": list(container.device_cgroup_rules),
        "cap_add": list(container.add_capabilities),
        "security_opt": list(container.security_options),
        "ulimits": {name: _limit(text) for name, text in sorted(container.ulimits.items())},
        "shm_size": container.shared_memory_bytes,
        "mem_limit": container.memory_bytes,
        "memswap_limit": container.memory_swap_bytes,
        "stop_grace_period": f"{container.stop_seconds}s",
    }


def _gpus(text: str | None) -> Json:
    if text is None:
        return None
    device: dict[str, Json] = {"capabilities": ["gpu"], "count": text if text == "all" else int(text)}
    return {"resources": {"reservations": {"devices": [device]}}}


def _limit(text: str) -> Json:
    soft, _, hard = text.partition(":")
    return {"soft": int(soft), "hard": int(hard)}


def _volume(mount: BindMount) -> Json:
    # A folder that is not there is an error, and not made: as with docker run --mount.
    return {
        "type": "bind",
        "source": mount.source,
        "target": mount.target,
        **({"read_only": True} if mount.read_only else {}),
        "bind": {"create_host_path": False},
    }
