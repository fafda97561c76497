# SPDX-License-Identifier: Apache-2.0
"""Whether an engine's settings of a container (``HostConfig``) are those of its launch, and none besides.

Core: no IO. Standard library only.

Engines write one thing in several ways, by their version: each setting is read as a value first, then compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from derive.canonical import Json
from derive.deploy.observe_words import Found
from derive.recipes.resolved import Container as Told
from derive.render.launch import Launch

Host = Mapping[str, Json]

_PRIVATE_IPC = frozenset({"", "private", "shareable"})
"""What an engine writes where nothing is said, by its version and settings."""
_NEUTRAL: Mapping[str, tuple[Json, ...]] = {
    "Privileged": (False,),
    "CapDrop": (),
    "PidMode": ("",),
    "UTSMode": ("",),
    "UsernsMode": ("",),
    "CgroupnsMode": ("", "host", "private"),
    "ReadonlyRootfs": (False,),
    "AutoRemove": (False,),
    "Init": (False,),
    "GroupAdd": (),
    "Dns": (),
    "DnsOptions": (),
    "DnsSearch": (),
    "ExtraHosts": (),
    "Links": (),
    "PortBindings": (),
    "PublishAllPorts": (False,),
    "VolumesFrom": (),
    "Tmpfs": (),
    "Sysctls": (),
    "StorageOpt": (),
    "OomScoreAdj": (0,),
    "OomKillDisable": (False,),
    "PidsLimit": (0, -1),
    "MemoryReservation": (0,),
    "MemorySwappiness": (-1,),
    "CpuShares": (0,),
    "NanoCpus": (0,),
    "CpuPeriod": (0,),
    "CpuQuota": (0,),
    "CpuRealtimePeriod": (0,),
    "CpuRealtimeRuntime": (0,),
    "CpusetCpus": ("",),
    "CpusetMems": ("",),
    "BlkioWeight": (0,),
    "BlkioWeightDevice": (),
    "BlkioDeviceReadBps": (),
    "BlkioDeviceWriteBps": (),
    "BlkioDeviceReadIOps": (),
    "BlkioDeviceWriteIOps": (),
}
"""What no launch says: by its name, what it is where nobody said it, beside null and nothing."""


def limit_differences(launch: Launch, host: Host, unheld: Collection[str]) -> Iterator[Found]:
    """Yield each setting that differs, by the name that it has in a launch, or else in ``HostConfig``."""
    for name, key, expected, got in _told(launch, host):
        if expected != got and key not in unheld:
            yield (f"container.{name}", expected, got)
    for key, neutral in _NEUTRAL.items():
        value = host.get(key)
        if value is not None and value not in ([], {}, (), *neutral):
            yield (f"container.{key}", None, _shown(value))
    policy = host.get("RestartPolicy")
    restarts = policy.get("Name") if isinstance(policy, Mapping) else None
    if restarts not in (None, "", "no"):
        yield ("container.RestartPolicy", None, str(restarts))


def _told(launch: Launch, host: Host) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield what a launch may say: its name, its key in ``HostConfig``, and both sides as text."""
    told = launch.container
    yield "slice", "CgroupParent", launch.slice, _text(host, "CgroupParent")
    yield "network", "NetworkMode", told.network, _network(host)
    yield "ipc", "IpcMode", _ipc(told.ipc), _ipc(_text(host, "IpcMode"))
    yield "gpus", "DeviceRequests", told.gpus, _gpus(host)
    for name, key, said, read in _LISTS:
        yield (
            name,
            key,
            _joined(map(read, said(told))),
            _joined(_devices(host) if key == "Devices" else _texts(host, key, read)),
        )
    yield "ulimits", "Ulimits", _joined(f"{name}={limit}" for name, limit in told.ulimits.items()), _ulimits(host)
    for name, key, size in (
        ("shared-memory-bytes", "ShmSize", told.shared_memory_bytes),
        ("memory-bytes", "Memory", told.memory_bytes or 0),
        # Where a launch says nothing of it, the engine takes twice the memory.
        ("memory-swap-bytes", "MemorySwap", told.memory_swap_bytes),
    ):
        if size is not None:
            yield name, key, _size(size), _size(host.get(key))
    if "StopTimeout" in host:
        yield "stop-seconds", "StopTimeout", str(told.stop_seconds), _shown(host["StopTimeout"])


def _network(host: Host) -> str | None:
    mode = _text(host, "NetworkMode")
    return "bridge" if mode == "default" else mode


def _ipc(mode: str | None) -> str:
    return "private" if mode is None or mode in _PRIVATE_IPC else mode


def _size(value: Json) -> str | None:
    return None if value in (None, 0) else str(value)


def _gpus(host: Host) -> str | None:
    """Return the GPUs that were asked for, as ``--gpus`` says them."""
    asked = host.get("DeviceRequests")
    if not isinstance(asked, Sequence) or isinstance(asked, str) or not asked:
        return None
    return " and ".join(_one_request(one) for one in asked)


def _one_request(one: Json) -> str:
    if not isinstance(one, Mapping):
        return _shown(one)
    count, ids = one.get("Count"), one.get("DeviceIDs")
    wanted = one.get("Capabilities")
    if isinstance(ids, Sequence) and not isinstance(ids, str) and ids:
        said = f"device={','.join(map(str, ids))}"
    else:
        said = "all" if count == -1 else str(count)
    plain = one.get("Driver") in (None, "", "nvidia") and wanted in ([["gpu"]], (("gpu",),), None, [])
    return said if plain and not one.get("Options") else f"{said} of {_shown(one)}"


def _device(text: str) -> str:
    """Return a device as ``host:container:rights``, whatever of it was left out."""
    source, _, rest = text.partition(":")
    target, _, rights = rest.partition(":")
    if rights == "" and target and set(target) <= set("rwm"):
        target, rights = "", target
    return f"{source}:{target or source}:{rights or 'rwm'}"


def _devices(host: Host) -> list[str]:
    found = []
    for one in _items(host, "Devices"):
        if isinstance(one, Mapping):
            found.append(":".join(str(one.get(key)) for key in ("PathOnHost", "PathInContainer", "CgroupPermissions")))
        else:
            found.append(_shown(one))
    return found


def _ulimits(host: Host) -> str | None:
    return _joined(map(_ulimit, _items(host, "Ulimits")))


def _ulimit(one: Json) -> str:
    return f"{one.get('Name')}={one.get('Soft')}:{one.get('Hard')}" if isinstance(one, Mapping) else _shown(one)


def _option(text: str) -> str:
    """Return a security option in its newer form: ``label=disable``."""
    name, colon, value = text.partition(":")
    return f"{name}={value}" if colon and "=" not in name else text


_LISTS: tuple[tuple[str, str, Callable[[Told], Sequence[str]], Callable[[str], str]], ...] = (
    ("devices", "Devices", lambda told: told.devices, _device),
    ("device-cgroup-rules", "DeviceCgroupRules", lambda told: told.device_cgroup_rules, str),
    ("add-capabilities", "CapAdd", lambda told: told.add_capabilities, lambda text: text.removeprefix("CAP_")),
    ("security-options", "SecurityOpt", lambda told: told.security_options, _option),
)


def _texts(host: Host, key: str, read: Callable[[str], str]) -> list[str]:
    return [read(str(one)) for one in _items(host, key)]


def _items(host: Host, key: str) -> Sequence[Json]:
    value = host.get(key)
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _text(host: Host, key: str) -> str | None:
    value = host.get(key)
    return None if value is None else str(value)


def _joined(texts: Iterator[str] | Sequence[str]) -> str | None:
    """Return texts in one order, each once: engines keep them in any."""
    return " ".join(sorted(set(texts))) or None


def _shown(value: Json) -> str:
    return value if isinstance(value, str) else str(value)
