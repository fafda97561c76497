# SPDX-License-Identifier: Apache-2.0
"""A launch as a document, and back: ``container.json``, and a part of every shape bundle.

Core: no IO. Standard library only. The document is specified on docs/formats/bundle.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from derive.canonical import Json
from derive.images.documents import DocumentError, exact, fields, integer, items, text, text_map, texts
from derive.recipes.resolved import Container, GuardPhase, Phase, Ready
from derive.render.launch import BindMount, Launch

TAG = "launch/1"
_CONTAINER = (
    "network",
    "ipc",
    "gpus",
    "devices",
    "add-capabilities",
    "ulimits",
    "security-options",
    "shared-memory-bytes",
    "memory-bytes",
    "memory-swap-bytes",
    "device-cgroup-rules",
    "stop-seconds",
)
_KEYS = (
    "recipe",
    "shape",
    "node",
    "rank",
    "nodes",
    "name",
    "image",
    "reference",
    "entrypoint",
    "arguments",
    "environment",
    "mounts",
    "container",
    "labels",
    "slice",
    "folder",
    "guard",
    "port",
    "ready",
)


def launch_document(launch: Launch) -> dict[str, Json]:
    """Return everything that one node is told."""
    return {
        "derive": TAG,
        "recipe": launch.recipe,
        "shape": launch.shape,
        "node": launch.node,
        "rank": launch.rank,
        "nodes": launch.nodes,
        "name": launch.name,
        "image": launch.image,
        "reference": launch.reference,
        "entrypoint": list(launch.entrypoint),
        "arguments": list(launch.arguments),
        "environment": dict(launch.environment),
        "mounts": [_mount_document(mount) for mount in launch.mounts],
        "container": _container_document(launch.container),
        "labels": dict(launch.labels),
        "slice": launch.slice,
        "folder": launch.folder,
        "guard": [_phase_document(phase) for phase in launch.guard],
        "port": launch.port,
        "ready": {"path": launch.ready.path, "timeout-seconds": launch.ready.timeout_seconds},
    }


def launch_from_document(document: Json) -> Launch:
    """Read what :func:`launch_document` wrote; raises DocumentError on anything else."""
    found = fields(document, tag=TAG, keys=_KEYS)
    ready = exact(found["ready"], keys=("path", "timeout-seconds"), what="ready")
    return Launch(
        recipe=text(found, "recipe"),
        shape=text(found, "shape"),
        node=text(found, "node"),
        rank=integer(found, "rank"),
        nodes=integer(found, "nodes"),
        name=text(found, "name"),
        image=text(found, "image"),
        reference=text(found, "reference"),
        entrypoint=texts(found, "entrypoint"),
        arguments=texts(found, "arguments"),
        environment=text_map(found, "environment"),
        mounts=tuple(_mount(one) for one in items(found, "mounts")),
        container=_container(found["container"]),
        labels=text_map(found, "labels"),
        slice=text(found, "slice"),
        folder=text(found, "folder"),
        guard=tuple(_phase(one) for one in items(found, "guard")),
        port=integer(found, "port"),
        ready=Ready(path=text(ready, "path"), timeout_seconds=integer(ready, "timeout-seconds")),
    )


def laid_out(document: Mapping[str, Json]) -> bytes:
    """Return a document as people read it: keys sorted, a line each. Read and encoded again, it is canonical."""
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode("utf-8")


def _mount_document(mount: BindMount) -> dict[str, Json]:
    return {"source": mount.source, "target": mount.target, "read-only": mount.read_only}


def _mount(document: Json) -> BindMount:
    found = exact(document, keys=("source", "target", "read-only"), what="mounts")
    if not isinstance(found["read-only"], bool):
        raise DocumentError("read-only: neither true nor false")
    return BindMount(source=text(found, "source"), target=text(found, "target"), read_only=found["read-only"])


def _container_document(container: Container) -> dict[str, Json]:
    return {
        "network": container.network,
        "ipc": container.ipc,
        "gpus": container.gpus,
        "devices": list(container.devices),
        "add-capabilities": list(container.add_capabilities),
        "ulimits": dict(container.ulimits),
        "security-options": list(container.security_options),
        "shared-memory-bytes": container.shared_memory_bytes,
        "memory-bytes": container.memory_bytes,
        "memory-swap-bytes": container.memory_swap_bytes,
        "device-cgroup-rules": list(container.device_cgroup_rules),
        "stop-seconds": container.stop_seconds,
    }


def _container(document: Json) -> Container:
    found = exact(document, keys=_CONTAINER, what="container")
    return Container(
        network=text(found, "network"),
        ipc=_optional_text(found, "ipc"),
        gpus=_optional_text(found, "gpus"),
        devices=texts(found, "devices"),
        add_capabilities=texts(found, "add-capabilities"),
        ulimits=text_map(found, "ulimits"),
        security_options=texts(found, "security-options"),
        shared_memory_bytes=_optional_integer(found, "shared-memory-bytes"),
        memory_bytes=_optional_integer(found, "memory-bytes"),
        memory_swap_bytes=_optional_integer(found, "memory-swap-bytes"),
        device_cgroup_rules=texts(found, "device-cgroup-rules"),
        stop_seconds=integer(found, "stop-seconds"),
    )


def _phase_document(phase: GuardPhase) -> dict[str, Json]:
    return {
        "phase": phase.phase,
        "floor-bytes": phase.floor_bytes,
        "interval": phase.interval,
        "wait-seconds": phase.wait_seconds,
    }


def _phase(document: Json) -> GuardPhase:
    found = exact(document, keys=("phase", "floor-bytes", "interval", "wait-seconds"), what="guard")
    name = text(found, "phase")
    phase: Phase = "steady" if name == "steady" else "startup"
    if name != phase:
        raise DocumentError(f"phase: no phase of the guard: {name!r}")
    return GuardPhase(
        phase=phase,
        floor_bytes=integer(found, "floor-bytes"),
        interval=text(found, "interval"),
        wait_seconds=integer(found, "wait-seconds"),
    )


def _optional_text(found: Mapping[str, Json], key: str) -> str | None:
    return None if found[key] is None else text(found, key)


def _optional_integer(found: Mapping[str, Json], key: str) -> int | None:
    return None if found[key] is None else integer(found, key)
