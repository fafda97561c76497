# SPDX-License-Identifier: Apache-2.0
"""What one machine of a site is, as it and its container engine say: the facts that a deploy is judged by.

Core: no IO. Standard library only.

Facts are gathered by a program on the node and by its engine, travel as JSON, and are read by
:mod:`derive.deploy.machine`. What a machine could not say is None, or is not there, and is never taken for a yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from derive.canonical import Json
from derive.fabric.facts import NodeFacts

MEMORY_SAVER = "nvidia_uvm"
"""The module that the memory saver is: NVIDIA's own, patched. Its package's version is not the module's."""
PACKING = "uvm_pack_sysmem_leaf_tables"
"""The parameter that the patched module alone has: whether it packs page tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A kernel module that is loaded; ``version`` and ``srcversion`` as the kernel has them, None where it has none."""

    name: str
    version: str | None
    srcversion: str | None
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The file system that a folder lies on, or would: bytes free for this user, bytes in all, and which one it is."""

    folder: str
    free_bytes: int
    total_bytes: int
    device: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSeen:
    """What is at the source of a mount: ``file``, ``folder``, ``other``, or None for nothing; what this user may do."""

    source: str
    kind: str | None
    readable: bool
    writable: bool
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Who is at the other end of an interface's cable, as LLDP says; None for what it does not say."""

    interface: str
    host: str | None
    port: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSeen:
    """A container engine; ``image_store`` is ``graphdriver`` (overlay2) or ``containerd``.

    ``cgroup_driver`` is ``systemd`` or ``cgroupfs``, ``architecture`` as the kernel calls it, ``root`` the folder that
    images lie in. ``devices`` are those that CDI files give, where the engine says so.
    """

    version: str
    image_store: str
    cgroup_driver: str
    cgroup_version: int
    architecture: str
    runtimes: frozenset[str]
    devices: frozenset[str]
    root: str
    warnings: tuple[str, ...] = ()

    @property
    def unheld(self) -> frozenset[str]:
        """The settings of a container that this engine drops, by their names in ``HostConfig``."""
        return unheld(self.warnings)


def unheld_by(engine: Mapping[str, Json]) -> frozenset[str]:
    """Return the settings of a container that an engine drops, from what the engine says of itself."""
    warnings = engine.get("warnings")
    return unheld(map(str, warnings) if isinstance(warnings, list | tuple) else ())


def unheld(warnings: Iterable[str]) -> frozenset[str]:
    """Return the settings of a container that an engine with these warnings drops, by their names in ``HostConfig``."""
    found: set[str] = set()
    for warning in warnings:
        if "No memory limit support" in warning:
            found |= {"Memory", "MemorySwap"}
        elif "No swap limit support" in warning:
            found.add("MemorySwap")
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One node as it was seen. Sizes in bytes, times in nanoseconds since 1970.

    ``clock_ns`` is the node's clock and ``seen_ns`` that of whoever asked, both when the facts came. ``sudo`` says
    whether the user may become root without a password, ``listening`` which of the ports that were asked for are
    taken. ``units`` are the systemd units that were asked for and are there, by name, with how active each is.
    ``swap`` is what each file or device of it holds. ``systemd`` is its version where it is the first process.
    """

    node: str
    host: str
    boot_id: str
    clock_ns: int
    seen_ns: int
    user: str | None
    groups: frozenset[str]
    kernel: str
    architecture: str
    page_size: int
    memory_total: int | None
    memory_available: int | None
    swap: Mapping[str, int] | None
    driver: str | None
    transparent_huge_pages: str | None
    min_free_kbytes: int | None
    modules: Mapping[str, Module]
    network: NodeFacts | None
    neighbours: tuple[Neighbour, ...] | None
    disks: Mapping[str, Disk]
    mounts: Mapping[str, MountSeen]
    systemd: int | None
    cgroup: int | None
    controllers: frozenset[str]
    python: tuple[int, ...]
    sudo: bool
    listening: frozenset[int]
    units: Mapping[str, str]
    unread: tuple[str, ...]
    engine: EngineSeen | None

    @property
    def skew_ns(self) -> int:
        """How far its clock is ahead of that of whoever asked; negative where it is behind."""
        return self.clock_ns - self.seen_ns
