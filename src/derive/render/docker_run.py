# SPDX-License-Identifier: Apache-2.0
"""A launch as the words of ``docker run``: an unquoted word for each option, the image, and what follows it.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.recipes.resolved import Container
from derive.render.launch import BindMount, Launch
from derive.render.quoting import field_list


def options(launch: Launch) -> tuple[str, ...]:
    """Return every option, each with its value in one word: ``--name=ds41f``."""
    return tuple(_options(launch))


def process_lines(launch: Launch) -> tuple[tuple[str, ...], ...]:
    """Return what stands behind the image, in lines for people: an option and its values are one line.

    Docker takes one word as the entrypoint; further ones of it come first here, and so reach the process in order.
    """
    lines: list[tuple[str, ...]] = []
    for word in (*launch.entrypoint[1:], *launch.arguments):
        if lines and not word.startswith("--") and lines[-1][0].startswith("--"):
            lines[-1] += (word,)
        else:
            lines.append((word,))
    return tuple(lines)


def _options(launch: Launch) -> Iterator[str]:
    # What is not there is an error: a pull would hold a start up, and bring what nobody looked at.
    yield "--pull=never"
    yield f"--name={launch.name}"
    yield f"--cgroup-parent={launch.slice}"
    yield from _container(launch.container)
    yield from (f"--label={name}={value}" for name, value in sorted(launch.labels.items()))
    yield from (f"--mount={_mount(mount)}" for mount in launch.mounts)
    yield from (f"--env={name}={value}" for name, value in sorted(launch.environment.items()))
    if launch.entrypoint:
        yield f"--entrypoint={launch.entrypoint[0]}"


def _container(container: Container) -> Iterator[str]:
    yield f"--network={container.network}"
    if container.ipc is not None:
        yield f"--ipc={container.ipc}"
    if container.gpus is not None:
        yield f"--gpus={container.gpus}"
    yield from (f"--device={device}" for device in container.devices)
    yield from (f"--device-cgroup-rule={rule}" for rule in container.device_cgroup_rules)
    yield from (f"--cap-add={capability}" for capability in container.add_capabilities)
    yield from (f"--security-opt={option}" for option in container.security_options)
    yield from (f"--ulimit={name}={limit}" for name, limit in sorted(container.ulimits.items()))
    for name, size in (
        ("shm-size", container.shared_memory_bytes),
        ("memory", container.memory_bytes),
        ("memory-swap", container.memory_swap_bytes),
    ):
        if size is not None:
            yield f"--{name}={size}"
    yield f"--stop-timeout={container.stop_seconds}"


def _mount(mount: BindMount) -> str:
    parts = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    return field_list([*parts, "readonly"] if mount.read_only else parts)
