# SPDX-License-Identifier: Apache-2.0
"""A private Docker engine with a client: how it is started, and that nothing of it is left, is `speed.private_docker`.

Edge: starts processes, mounts, cgroups; needs root.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import docker
import requests
from docker.errors import DockerException

from speed.private_docker import (
    EngineError,
    EngineUnavailableError,
    ImageStore,
    default_binaries,
    started_engine,
    why_unavailable,
)

__all__ = [
    "DockerEngine",
    "EngineError",
    "EngineUnavailableError",
    "ImageStore",
    "LoadedImage",
    "RunResult",
    "default_binaries",
    "docker_engine",
    "why_unavailable",
]

REQUEST_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedImage:
    """One image as the engine names it after loading.

    `reference` is its name, or its id if it has none. `id` is `sha256:<hex>`: the digest of the manifest (or index)
    with the containerd store, of the image config with overlay2.
    """

    reference: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A finished container: exit code and what it wrote, as UTF-8 with other bytes shown as escapes."""

    rc: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerEngine:
    """A running engine. `url` serves any Docker client; `log` is the engine's own log."""

    url: str
    store: ImageStore
    folder: Path
    client: docker.DockerClient

    @property
    def log(self) -> Path:
        return self.folder / "dockerd.log"

    def load(self, archive: Path) -> tuple[LoadedImage, ...]:
        """Load an image archive as `docker load` does; raises docker.errors.DockerException if it is refused."""
        with archive.open("rb") as stream:
            images = self.client.images.load(stream)
        return tuple(LoadedImage(reference=(*image.tags, str(image.id))[0], id=str(image.id)) for image in images)

    def run(
        self, image: str, argv: Sequence[str], *, user: str | None = None, timeout_seconds: float = 60.0
    ) -> RunResult:
        """Run `argv` in a fresh container of `image` without network, as `docker run --rm --network=none` does.

        Raises TimeoutError past the limit, docker.errors.DockerException if the container cannot be made or started.
        """
        container = self.client.containers.create(image, list(argv), network_mode="none", user=user)
        try:
            container.start()
            try:
                status = container.wait(timeout=timeout_seconds)
            except (requests.Timeout, requests.ConnectionError) as error:
                raise TimeoutError(f"{list(argv)} in {image} did not end within {timeout_seconds:g} s") from error
            return RunResult(
                rc=int(status["StatusCode"]),
                stdout=container.logs(stdout=True, stderr=False).decode(errors="backslashreplace"),
                stderr=container.logs(stdout=False, stderr=True).decode(errors="backslashreplace"),
            )
        finally:
            container.remove(force=True)


@contextlib.contextmanager
def docker_engine(
    *, store: ImageStore, binaries: Path, parent: Path = Path("/var/tmp"), extra_path: Sequence[Path] = ()
) -> Iterator[DockerEngine]:
    """Run an engine as `started_engine` starts it, and connect.

    Raises EngineUnavailableError where this machine cannot run one, EngineError where it could and it did not start.
    """
    clients: list[docker.DockerClient] = []

    def answers(url: str) -> bool:
        with contextlib.suppress(DockerException):
            clients.append(docker.DockerClient(base_url=url, version="auto", timeout=REQUEST_SECONDS))
        return bool(clients)

    with started_engine(store=store, binaries=binaries, parent=parent, extra_path=extra_path) as started:
        started.wait(answers)
        (client,) = clients
        try:
            yield DockerEngine(url=started.url, store=store, folder=started.folder, client=client)
        finally:
            client.close()
