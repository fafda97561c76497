# SPDX-License-Identifier: Apache-2.0
"""Whether a node's container engine can run a launch: its version, GPUs, and control groups.

Core: no IO. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from derive.deploy.machine_values import EngineSeen
from derive.deploy.preflight_finding import Finding, OneNode
from derive.errors import expected_got

_OLDEST = (20, 10)
"""The first version that knows ``--pull=never`` beside ``--gpus`` and control groups of version 2."""
_CDI_GPU = "nvidia.com/gpu"


def engine_findings(given: OneNode) -> Iterator[Finding]:
    """Yield what is wrong with the engine."""
    engine = given.machine.engine
    if engine is None:
        user = given.machine.user or "the user"
        known = "docker" in given.machine.groups
        fix = (
            "see: systemctl status docker"
            if known
            else f"sudo usermod --append --groups docker {user}; then log in anew"
        )
        yield given.error("engine.answers", "Docker does not answer", fix=fix)
        return
    numbers = tuple(int(part) for part in re.findall(r"\d+", engine.version)[:2])
    if numbers < _OLDEST:
        said = expected_got(f"{'.'.join(map(str, _OLDEST))} or newer", engine.version)
        yield given.error("engine.version", "Docker is too old", said, "install a newer Docker")
    yield from _gpus(given, engine)
    yield from _groups(given, engine)


def _gpus(given: OneNode, engine: EngineSeen) -> Iterator[Finding]:
    if given.launch.container.gpus is None or "nvidia" in engine.runtimes:
        return
    if not any(name.startswith(_CDI_GPU) for name in engine.devices):
        said = expected_got("nvidia", ", ".join(sorted(engine.runtimes)) or "none")
        fix = "install nvidia-container-toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker"
        yield given.error("engine.nvidia", "Docker has no NVIDIA runtime", said, fix)


def _groups(given: OneNode, engine: EngineSeen) -> Iterator[Finding]:
    """Yield where the guard would look at another control group than the container's, or limits do not hold."""
    if given.launch.guard and given.machine.systemd is not None:
        if engine.cgroup_driver != "systemd":
            fix = 'say "exec-opts": ["native.cgroupdriver=systemd"] in /etc/docker/daemon.json, and restart it'
            said = expected_got("systemd", engine.cgroup_driver)
            yield given.error("engine.cgroup-driver", "Docker makes control groups past systemd", said, fix)
        elif given.machine.cgroup != 2 and engine.cgroup_version != 2:
            fix = "boot with systemd.unified_cgroup_hierarchy=1"
            said = expected_got("2", engine.cgroup_version)
            yield given.error("engine.cgroup-version", "control groups are of another version", said, fix)
    if given.launch.container.memory_bytes is not None and "Memory" in engine.unheld:
        message = "Docker cannot limit memory here: the launch's limit does not hold, the guard alone watches"
        fix = "boot with cgroup_enable=memory"
        yield given.warn("engine.memory-limit", message, fix=fix)
