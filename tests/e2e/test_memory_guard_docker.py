# SPDX-License-Identifier: Apache-2.0
"""The memory guard beside a real container: the engine sees it killed, and not by the kernel's OOM killer."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.models.containers import Container

from speed.private_docker import CGROUPS
from support.derived import Derived
from support.docker_engine import (
    DockerEngine,
    ImageStore,
    default_binaries,
    docker_engine,
    why_unavailable,
)
from support.memguard import Guard, built, ended, false_proc, set_available
from support.require import skip_or_fail

pytestmark = pytest.mark.docker

BUSYBOX = Path("/bin/busybox")
STARTED = ["/busybox", "sh", "-c", "/busybox sleep 1000 & /busybox sleep 1000 & wait"]


@pytest.fixture(scope="module")
def engine() -> Iterator[DockerEngine]:
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    with docker_engine(store=ImageStore.OVERLAY2, binaries=default_binaries()) as running:
        yield running


@pytest.fixture(scope="module")
def image(engine: DockerEngine) -> str:
    if not BUSYBOX.exists():
        skip_or_fail(f"{BUSYBOX} is missing: install the package busybox-static")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        entry = tarfile.TarInfo("busybox")
        entry.size, entry.mode = BUSYBOX.stat().st_size, 0o755
        layer.addfile(entry, io.BytesIO(BUSYBOX.read_bytes()))
    engine.client.api.import_image_from_data(buffer.getvalue(), repository="guarded")
    return "guarded:latest"


def group_of(engine: DockerEngine, container: Container) -> Path:
    """Return the group that a container has, or will have: the engine's driver names it by the container's id."""
    mounted = CGROUPS if (CGROUPS / "cgroup.controllers").exists() else CGROUPS / "freezer"
    return mounted / engine.folder.name / str(container.id)


@pytest.fixture
def container(engine: DockerEngine, image: str) -> Iterator[Container]:
    """A container that is created, and not started yet."""
    made = engine.client.containers.create(image, STARTED, network_mode="none")
    yield made
    made.remove(force=True)


@pytest.fixture
def guard(engine: DockerEngine, container: Container, derived: Derived, tmp_path: Path) -> Iterator[Guard]:
    """The guard of that container."""
    with Guard(built(derived.store), tmp_path, group_of(engine, container)) as one:
        yield one


def test_a_container_below_the_floor_ends_137_and_not_by_the_oom_killer(
    guard: Guard, container: Container, tmp_path: Path
) -> None:
    running = guard.start(wait="60", phase="startup", floor="500KiB", proc=false_proc(tmp_path))
    container.start()
    guard.wait_for("guarding")
    set_available(tmp_path, 499)
    ran = ended(running)
    assert ran.code == 3, ran.err
    assert container.wait(timeout=60)["StatusCode"] == 137
    container.reload()
    state = container.attrs["State"]
    assert (state["OOMKilled"], state["ExitCode"]) == (False, 137)
    assert guard.record()[1]["body"]["killing"]["ended"] is True


def test_a_container_that_the_engine_stops_has_ended(guard: Guard, container: Container) -> None:
    running = guard.start(wait="60")
    guard.wait_for("waiting")
    container.start()
    guard.wait_for("guarding")
    container.stop(timeout=0)
    assert ended(running).code == 0
    assert list(guard.evidence.iterdir()) == []
