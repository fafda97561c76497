# SPDX-License-Identifier: Apache-2.0
"""A shape of a recipe with nothing left to look up: what is shared and what is its own merged, all derived values in.

Core: no IO. Standard library only, so that whoever renders pays for no parser.

A value is JSON, in which a decimal is ``{"decimal": "0.82"}``: the text that stood in the recipe, never a float.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from derive.canonical import Json

Phase: TypeAlias = Literal["startup", "steady"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a value comes from: a file and the key path in it; or a rule of the engine, with what the rule read."""

    file: str
    key: str
    rule: str | None = None
    inputs: tuple[str, ...] = ()
    doc: str = ""
    needs: tuple[str, ...] = ()
    """Capabilities of the image that read this: where it lacks one of them, nothing in it may know the value."""
    overrides: str | None = None
    """What this stands above, and where that is written: ``8 (recipes/ds41f.toml: arguments.max-num-seqs)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPin:
    """The checkpoint: ``revision`` is None while nobody has pinned it, and ``unpinned`` says why.

    ``folder`` is the repository's name as the Hugging Face cache writes it (``models--owner--name``).
    """

    name: str
    repository: str
    folder: str
    revision: str | None
    unpinned: str | None = None

    @property
    def why_unpinned(self) -> str | None:
        """Why nobody may release or deploy this checkpoint yet; None for one that is pinned."""
        return self.unpinned or ("no reason is given" if self.revision is None else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A capability that the image must have, and the key path or rule that needs it."""

    capability: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A bind mount. ``source`` may begin with ``{home}``, ``{folder}`` or ``{models}``, which the site says."""

    name: str
    source: str
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What Docker is told beside image, arguments, environment and mounts. Sizes in bytes; limits as ``soft:hard``."""

    network: str = "host"
    ipc: str | None = None
    gpus: str | None = None
    devices: tuple[str, ...] = ()
    add_capabilities: tuple[str, ...] = ()
    ulimits: Mapping[str, str] = field(default_factory=dict)
    security_options: tuple[str, ...] = ()
    shared_memory_bytes: int | None = None
    memory_bytes: int | None = None
    memory_swap_bytes: int | None = None
    device_cgroup_rules: tuple[str, ...] = ()
    stop_seconds: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPhase:
    """One phase of the memory guard; ``interval`` in seconds as decimal text, ``floor_bytes`` of MemAvailable."""

    phase: Phase
    floor_bytes: int
    interval: str
    wait_seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """When a service counts as started: an HTTP path on the head's port, and how many seconds it may take."""

    path: str
    timeout_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPolicy:
    """What the machine must be: kernel release, page size in bytes, whether the memory saver must be loaded, driver.

    Of the memory saver also its version, and its module's ``srcversion``; of memory ``transparent_huge_pages``, the
    kernel's ``vm.min_free_kbytes``, the bytes and the file of swap, and the unit that goes with them. None: it may
    be anything.
    """

    kernel: str | None = None
    page_size: int | None = None
    memory_saver: bool | None = None
    driver: str | None = None
    memory_saver_version: str | None = None
    memory_saver_srcversion: str | None = None
    transparent_huge_pages: str | None = None
    min_free_kbytes: int | None = None
    swap_bytes: int | None = None
    swap_file: str | None = None
    memory_unit: str | None = None

    def by_key(self) -> dict[str, str | int | bool | None]:
        """Return everything that is asked, by the recipe's keys; sizes in bytes."""
        return {
            "kernel": self.kernel,
            "page-size": self.page_size,
            "memory-saver": self.memory_saver,
            "driver": self.driver,
            "memory-saver-version": self.memory_saver_version,
            "memory-saver-srcversion": self.memory_saver_srcversion,
            "transparent-huge-pages": self.transparent_huge_pages,
            "min-free-kbytes": self.min_free_kbytes,
            "swap": self.swap_bytes,
            "swap-file": self.swap_file,
            "memory-unit": self.memory_unit,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What only governs promotion, and is in no digest."""

    launch_enabled: bool = True
    benchmark: str | None = None
    branch: str | None = None
    planned: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A shape, whole and free of any site.

    ``arguments`` are options of the served program, by their long names without dashes, sorted: a
    true option is given alone, a false one as ``--no-NAME``, a table or list of tables as JSON. ``environment`` holds
    what is set, the empty text included; what is absent is not there. ``memory`` is the recipe's ``[memory]`` table
    with the shape's merged in. ``transport`` and ``tuning`` name files of ``fabric/``. ``origins`` has one entry for
    each value, by its path: ``arguments.max-num-seqs``, ``environment.NCCL_ALGO``, ``guard.startup.floor``.
    """

    recipe: str
    shape: str
    doc: str
    image: str
    platform: str
    model: ModelPin | None
    cabling: Literal["triangle", "ring4"]
    nodes: int
    transport: str
    kernel_backend: Literal["b12x", "tilelang"] | None
    schema: str | None
    service: str
    entrypoint: tuple[str, ...]
    positional: tuple[str, ...]
    port: int
    master_port: int | None
    ready: Ready
    arguments: Mapping[str, Json]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    cache: str | None
    container: Container
    guard: tuple[GuardPhase, ...]
    host: HostPolicy
    memory: Mapping[str, Json]
    needs: tuple[Need, ...]
    promotion: Promotion
    notes: tuple[str, ...]
    origins: Mapping[str, Origin]
    tuning: str | None = None
    document: Mapping[str, Json] = field(default_factory=dict)
    """The merged tables that all this was read from, as JSON, with derived values in; for explaining, in no digest."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Settings of the deployment that this one follows, by name, that are no longer there, and why."""
    removed: Mapping[str, Origin] = field(default_factory=dict)
    """What the shapes share and this one removes, by path; ``doc`` says why."""
