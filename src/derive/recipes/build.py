# SPDX-License-Identifier: Apache-2.0
"""From a shape's merged tables, judged and with all derived values in, to the value that everything else reads.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, cast

from derive.canonical import Json
from derive.fabric.cabling import NODES
from derive.recipes.forms import number_text, size_bytes, texts
from derive.recipes.merge import Tables, find
from derive.recipes.needs import needs
from derive.recipes.resolved import (
    Container,
    GuardPhase,
    HostPolicy,
    ModelPin,
    Mount,
    Origin,
    Promotion,
    Ready,
    Resolved,
)
from derive.recipes.rules import ROWS

if TYPE_CHECKING:
    from derive.fabric.site import Cabling
    from derive.recipes.load import Recipe


def build(
    recipe: Recipe, shape: str, tables: Mapping[str, Json], origins: Mapping[str, Origin], pin: ModelPin | None
) -> Resolved:
    """Return a shape as a value; its tables have been judged."""
    service = _table(tables, "service")
    transport = _str(tables, "transport")
    cabling = cast("Cabling", tables["cabling"])
    return Resolved(
        recipe=recipe.name,
        shape=shape,
        doc=str(tables.get("doc", "")),
        image=recipe.image,
        platform=str(tables.get("platform", "linux/arm64")),
        model=pin,
        cabling=cabling,
        nodes=NODES[cabling],
        transport=transport,
        tuning=_optional(tables, "tuning"),
        kernel_backend=cast("Literal['b12x', 'tilelang'] | None", tables.get("kernel-backend")),
        schema="vllm" if service["program"] == "vllm" else None,
        service=_str(service, "name"),
        entrypoint=texts(service.get("entrypoint")),
        positional=_positional(tables),
        port=_int(service, "port"),
        master_port=_int(service, "master-port") if "master-port" in service else None,
        ready=_ready(_table(service, "ready")),
        arguments=dict(sorted(_table(tables, "arguments").items())),
        environment={name: str(value) for name, value in sorted(_table(tables, "environment").items())},
        mounts=_mounts(tables),
        cache=_optional(_table(tables, "cache"), "target"),
        container=_container(_table(tables, "container")),
        guard=_guard(_table(tables, "guard")),
        host=_host(_table(tables, "host")),
        memory=_table(tables, "memory"),
        needs=needs(tables, origins["needs"].key if "needs" in origins else "needs", recipe.fabric),
        promotion=promotion_of(_table(tables, "promotion"), recipe.fabric.transports[transport].planned),
        notes=_notes(tables),
        origins=origins,
        document=tables,
        dropped={name: str(reason) for name, reason in sorted(_table(tables, "dropped").items())},
    )


def _positional(tables: Tables) -> tuple[str, ...]:
    folder = f"{find(tables, ('model', 'target'))}/snapshots/{find(tables, ('model', 'revision'))}"
    port = str(find(tables, ("service", "port")))
    words = texts(find(tables, ("service", "positional")))
    return tuple(word.replace("{model}", folder).replace("{port}", port) for word in words)


def _ready(table: Tables) -> Ready:
    return Ready(path=_str(table, "path"), timeout_seconds=_int(table, "timeout"))


def _mounts(tables: Tables) -> tuple[Mount, ...]:
    named = {name: value for name, value in _table(tables, "mounts").items() if isinstance(value, Mapping)}
    return tuple(
        Mount(name=name, source=_str(one, "source"), target=_str(one, "target"), read_only=one["mode"] == "ro")
        for name, one in sorted(named.items())
    )


def _container(table: Tables) -> Container:
    return Container(
        network=str(table.get("network", "host")),
        ipc=_optional(table, "ipc"),
        gpus=_optional(table, "gpus"),
        devices=texts(table.get("devices")),
        add_capabilities=texts(table.get("add-capabilities")),
        ulimits={name: str(value) for name, value in sorted(_table(table, "ulimits").items())},
        security_options=texts(table.get("security-options")),
        shared_memory_bytes=_size(table, "shared-memory"),
        memory_bytes=_size(table, "memory"),
        memory_swap_bytes=_size(table, "memory-swap"),
        device_cgroup_rules=texts(table.get("device-cgroup-rules")),
        stop_seconds=_int(table, "stop") if "stop" in table else 60,
    )


def _guard(table: Tables) -> tuple[GuardPhase, ...]:
    phases: tuple[Literal["startup", "steady"], ...] = ("startup", "steady")
    return tuple(_phase(phase, _table(table, phase)) for phase in phases if phase in table)


def _phase(phase: Literal["startup", "steady"], table: Tables) -> GuardPhase:
    return GuardPhase(
        phase=phase,
        floor_bytes=size_bytes(_str(table, "floor")),
        interval=number_text(table["interval"]) or "",
        wait_seconds=_int(table, "wait") if "wait" in table else 0,
    )


def _host(table: Tables) -> HostPolicy:
    saver, least = table.get("memory-saver"), table.get("min-free-kbytes")
    return HostPolicy(
        kernel=_optional(table, "kernel"),
        page_size=_size(table, "page-size"),
        memory_saver=saver if isinstance(saver, bool) else None,
        driver=_optional(table, "driver"),
        memory_saver_version=_optional(table, "memory-saver-version"),
        memory_saver_srcversion=_optional(table, "memory-saver-srcversion"),
        transparent_huge_pages=_optional(table, "transparent-huge-pages"),
        min_free_kbytes=least if isinstance(least, int) else None,
        swap_bytes=_size(table, "swap"),
        swap_file=_optional(table, "swap-file"),
        memory_unit=_optional(table, "memory-unit"),
    )


def promotion_of(table: Tables, planned: str | None) -> Promotion:
    """Return what a table of promotion keys says; ``planned`` is why its transport is only planned, where it is."""
    return Promotion(
        launch_enabled=table.get("launch-enabled") is not False,
        benchmark=_optional(table, "benchmark"),
        branch=_optional(table, "branch"),
        planned=planned,
    )


def _notes(tables: Tables) -> tuple[str, ...]:
    notes = []
    if tables.get("transport") == "nccl-ring" and find(tables, ROWS) is None:
        notes.append("nccl-ring holds messages of any size: no limit of rows follows from its capacity")
    return tuple(notes)


def _table(tables: Tables, key: str) -> dict[str, Json]:
    value = tables.get(key)
    return dict(value) if isinstance(value, Mapping) else {}


def _str(tables: Tables, key: str) -> str:
    value = tables[key]
    assert isinstance(value, str)
    return value


def _int(tables: Tables, key: str) -> int:
    value = tables[key]
    assert isinstance(value, int)
    return value


def _optional(tables: Tables, key: str) -> str | None:
    return str(tables[key]) if key in tables else None


def _size(tables: Tables, key: str) -> int | None:
    return size_bytes(_str(tables, key)) if key in tables else None
