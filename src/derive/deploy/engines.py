# SPDX-License-Identifier: Apache-2.0
"""A node's container engine through Docker's SDK: containers and images as values, and the few things done to them.

Edge: the engine's socket. Every function here blocks: callers use a thread.

All of them raise ``EngineGone`` where the engine does not answer, or refuses. It names no node: ``Node.ask`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from derive.canonical import Json
from derive.deploy.model import Container, Mounted
from derive.errors import Unavailable

if TYPE_CHECKING:
    import docker

P = ParamSpec("P")
T = TypeVar("T")

_NOT_FOUND = 404
_NEVER = "0001-01-01T00:00:00Z"
"""What engines write for a time that has not been."""
_CONTAINERD = "io.containerd.snapshotter.v1"


class EngineGone(Unavailable):
    """A container engine does not answer, or refuses; the hint says how to ask it by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSeen:
    """An image as an engine lists it: ``id`` is its config's digest on overlay2, its manifest's with containerd.

    ``names`` are tags and digest references (``name@sha256:...``); ``layers`` diff ids, the lowest first; ``platform``
    is ``linux/arm64``, without a variant.
    """

    id: str
    names: tuple[str, ...]
    layers: tuple[str, ...]
    size_bytes: int
    platform: str

    @property
    def ids(self) -> tuple[str, ...]:
        """Every digest by which the engine knows it, the id first."""
        return tuple(dict.fromkeys((self.id, *(name.partition("@")[2] for name in self.names if "@" in name))))


def _told(function: Callable[P, T]) -> Callable[P, T]:
    """Turn what the SDK and sockets raise into an error for people."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except refusals() as error:
            raise _gone(error) from error

    return wrapped


def refusals() -> tuple[type[Exception], ...]:
    """Return what the SDK raises where an engine refuses or is gone: its own, and what it lets through of others."""
    from docker.errors import DockerException
    from requests import RequestException
    from urllib3.exceptions import HTTPError  # where an answer breaks off

    return DockerException, RequestException, HTTPError, OSError


def _gone(error: Exception) -> EngineGone:
    said = getattr(error, "explanation", None) or str(error)
    return EngineGone(
        "the container engine refused, or did not answer", detail=(str(said)[:300],), hint="docker info, there"
    )


@_told
def containers(client: docker.DockerClient, names: Sequence[str] | None = None) -> list[Container]:
    """Return the containers of these names, running or not, by name; all of them where no names are given."""
    if names is not None:
        found = [_inspected(client, name) for name in names]
    else:
        found = [_inspected(client, one["Id"]) for one in client.api.containers(all=True)]
    images: dict[str, tuple[tuple[str, ...], tuple[tuple[str, str], ...]]] = {}
    seen = [_container(client, about, images) for about in found if about is not None]
    return sorted(seen, key=lambda one: one.name)


@_told
def inspected(client: docker.DockerClient, name: str) -> Mapping[str, Any] | None:
    """Return all that an engine says of a container, as it says it; None where there is none of the name."""
    return _inspected(client, name)


def _inspected(client: docker.DockerClient, name: str) -> Mapping[str, Any] | None:
    from docker.errors import NotFound

    try:
        about: Mapping[str, Any] = client.api.inspect_container(name)
    except NotFound:  # it went away meanwhile
        return None
    return about


def _container(
    client: docker.DockerClient,
    about: Mapping[str, Any],
    images: dict[str, tuple[tuple[str, ...], tuple[tuple[str, str], ...]]],
) -> Container:
    config, host, state = about["Config"], about["HostConfig"], about["State"]
    image = str(about["Image"])
    if image not in images:
        images[image] = _of_image(client, image)
    ids, environment = images[image]
    running = state["Status"] in ("running", "paused", "restarting")
    named = str(config["Image"])
    if "@" in named:
        ids = tuple(dict.fromkeys((*ids, named.partition("@")[2])))
    return Container(
        id=str(about["Id"]),
        name=str(about["Name"]).removeprefix("/"),
        image=named,
        image_ids=ids,
        entrypoint=tuple(config.get("Entrypoint") or ()),
        arguments=tuple(config.get("Cmd") or ()),
        environment=_pairs(config.get("Env")),
        image_environment=environment,
        mounts=tuple(_mounted(one) for one in about.get("Mounts") or ()),
        labels=dict(config.get("Labels") or {}),
        host=host,
        state=str(state["Status"]),
        exit_code=None if running or state["Status"] == "created" else int(state["ExitCode"]),
        oom_killed=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
        started=_time(state.get("StartedAt")),
        finished=None if running else _time(state.get("FinishedAt")),
        pid=int(state["Pid"]) or None,
        restarts=int(about.get("RestartCount") or 0),
    )


def _of_image(client: docker.DockerClient, image: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the digests and the environment of an image, which may have been removed under its container."""
    from docker.errors import NotFound

    api: Any = client.api
    try:
        about = api.inspect_image(image)
    except NotFound:
        return (image,), ()
    return _ids(about, image), _pairs((about.get("Config") or {}).get("Env"))


def _ids(about: Mapping[str, Any], *others: str) -> tuple[str, ...]:
    of_names = (name.partition("@")[2] for name in about.get("RepoDigests") or ())
    # Newer engines say what the id of an image stands for, beside it.
    descriptor = (about.get("Descriptor") or {}).get("digest")
    every = (str(about["Id"]), *others, *of_names, *((str(descriptor),) if descriptor else ()))
    return tuple(dict.fromkeys(every))


def _pairs(lines: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, _, value in (line.partition("=") for line in lines or ()))


def _mounted(one: Mapping[str, Any]) -> Mounted:
    return Mounted(
        type=str(one["Type"]),
        source=str(one.get("Source") or one.get("Name") or ""),
        target=str(one["Destination"]),
        read_only=not one.get("RW", True),
    )


def _time(text: str | None) -> str | None:
    return None if not text or text == _NEVER else text


@_told
def engine_facts(client: docker.DockerClient) -> dict[str, Json]:
    """Return what preflight asks of an engine.

    Keys: ``version``, ``api``, ``storage_driver`` (``overlay2``, or a snapshotter such as ``overlayfs``),
    ``image_store`` (``containerd``, or ``graphdriver`` where images lie with the storage driver), ``cgroup_driver``,
    ``cgroup_version``, ``runtimes`` (names), ``default_runtime``, ``cdi_folders``, ``devices`` (CDI names, from engines
    that say), ``root``, ``architecture``, ``kernel``, ``host``, ``warnings``, ``running`` (number of containers).
    """
    about = client.api.info()
    version = client.api.version()
    driver = dict(line for line in about.get("DriverStatus") or () if len(line) == 2)
    return {
        "version": str(version.get("Version") or about.get("ServerVersion") or ""),
        "api": str(version.get("ApiVersion") or ""),
        "storage_driver": str(about.get("Driver") or ""),
        "image_store": "containerd" if driver.get("driver-type") == _CONTAINERD else "graphdriver",
        "cgroup_driver": str(about.get("CgroupDriver") or ""),
        "cgroup_version": int(about.get("CgroupVersion") or 1),
        "runtimes": sorted(about.get("Runtimes") or {}),
        "default_runtime": str(about.get("DefaultRuntime") or ""),
        "cdi_folders": list(about.get("CDISpecDirs") or ()),
        "devices": sorted(str(one.get("ID")) for one in about.get("DiscoveredDevices") or ()),
        "root": str(about.get("DockerRootDir") or ""),
        "architecture": str(about.get("Architecture") or ""),
        "kernel": str(about.get("KernelVersion") or ""),
        "host": str(about.get("Name") or ""),
        "warnings": [str(one) for one in about.get("Warnings") or ()],
        "running": int(about.get("ContainersRunning") or 0),
    }


@_told
def images(client: docker.DockerClient) -> list[ImageSeen]:
    """Return all images that the engine lists, by id, those without a name included."""
    found = []
    for one in client.api.images():
        seen = _image(client, str(one["Id"]))
        if seen is not None:
            found.append(seen)
    return sorted(found, key=lambda seen: seen.id)


def _image(client: docker.DockerClient, reference: str) -> ImageSeen | None:
    from docker.errors import NotFound

    api: Any = client.api
    try:
        about = api.inspect_image(reference)
    except NotFound:
        return None
    return ImageSeen(
        id=str(about["Id"]),
        names=tuple(sorted({*(about.get("RepoTags") or ()), *(about.get("RepoDigests") or ())})),
        layers=tuple((about.get("RootFS") or {}).get("Layers") or ()),
        size_bytes=int(about.get("Size") or 0),
        platform=f"{about.get('Os')}/{about.get('Architecture')}",
    )


@_told
def image_ids(client: docker.DockerClient, reference: str) -> tuple[str, ...]:
    """Return every digest by which the engine knows an image, its id first; empty where it has none by that."""
    seen = _image(client, reference)
    if seen is None:
        return ()
    named = reference.partition("@")[2]
    return tuple(dict.fromkeys((*seen.ids, *((named,) if named else ()))))


@_told
def stop(client: docker.DockerClient, name: str, seconds: int) -> bool:
    """Stop a container, killing it after ``seconds``; False where there is none that runs."""
    about = _inspected(client, name)
    if about is None or not about["State"]["Running"]:
        return False
    client.api.stop(name, timeout=seconds)
    return True


@_told
def remove(client: docker.DockerClient, name: str, *, force: bool = False) -> bool:
    """Remove a container; False where there is none. A running one is removed only with ``force``."""
    from docker.errors import NotFound

    try:
        client.api.remove_container(name, force=force)
    except NotFound:
        return False
    return True


@_told
def rename(client: docker.DockerClient, name: str, to: str) -> bool:
    """Rename a container; False where that was done before: there is none of the first name, and one of the second."""
    from docker.errors import NotFound

    try:
        client.api.rename(name, to)
    except NotFound:
        if _inspected(client, to) is None:
            raise
        return False
    return True


@_told
def set_restart(client: docker.DockerClient, name: str, policy: str) -> None:
    """Give a container another restart policy, ``always`` or ``on-failure:3``; it goes on as it is."""
    word, _, count = policy.partition(":")
    api: Any = client.api
    told = {"Name": word, **({"MaximumRetryCount": int(count)} if count.isdecimal() else {})}
    api.update_container(name, restart_policy=told)


@_told
def start(client: docker.DockerClient, name: str) -> bool:
    """Start a container that is there; False where it runs already."""
    about = _inspected(client, name)
    if about is not None and about["State"]["Running"]:
        return False
    client.api.start(name)
    return True


@_told
def logs(
    client: docker.DockerClient,
    name: str,
    *,
    tail: int | None = None,
    since_s: int | None = None,
    timestamps: bool = False,
) -> bytes:
    """Return what a container wrote, both streams in order: the last ``tail`` lines, since a time in seconds."""
    told: bytes = client.api.logs(
        name, tail="all" if tail is None else tail, since=since_s, timestamps=timestamps, stream=False
    )
    return told


def follow(
    client: docker.DockerClient,
    name: str,
    *,
    tail: int | None = None,
    since_s: int | None = None,
    timestamps: bool = False,
) -> Iterator[bytes]:
    """Yield what a container writes, as it does, in pieces of any length, until it ends."""
    try:
        yield from client.api.logs(
            name, tail="all" if tail is None else tail, since=since_s, timestamps=timestamps, stream=True, follow=True
        )
    except refusals() as error:
        raise _gone(error) from error
