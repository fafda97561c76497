# SPDX-License-Identifier: Apache-2.0
"""The steps of kernels: sources, the device's part of a unit, a host's part of it, and the index of a cache.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from derive.canonical import Json, escape
from derive.derivations.model import Derivation, Platform
from derive.derivations.steps import reference, step
from derive.kernels.units import Unit
from derive.sandbox.spec import sandbox_settings

Machine: TypeAlias = Literal["x86_64", "aarch64"]

MACHINE: Mapping[Platform, Machine] = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
"""What Python and TileLang call the machine of a platform."""

PYTHON = "3.13"
"""The Python of a compiler's root, where nothing else is said."""

TIMEOUT_S = 600
"""How long one unit, or one host's part of it, may take, where nothing else is said."""

_PLATFORM: Mapping[Machine, Platform] = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}


def source_step(name: str, files: Mapping[str, bytes]) -> Derivation:
    """Put sources into a tree; the keys are their paths in it."""
    arguments: dict[str, Json] = {
        "part": "source",
        "files": {path: escape(data) for path, data in files.items()},
    }
    return step(name, "kernel", arguments, {})


def device_step(
    unit: Unit, source: bytes, root: Derivation, build: Platform, *, python: str = PYTHON, timeout_s: int = TIMEOUT_S
) -> Derivation:
    """Compile a unit for its GPU; ``source`` is the kernel's code. No host's part is in what comes out."""
    arguments: dict[str, Json] = {
        "part": "device",
        "unit": unit.compiled_from(),
        "source": escape(source),
        "python": python,
        "sandbox": sandbox_settings(),
    }
    return step(unit.name, "kernel", arguments, {"root": reference(root)}, build=build, timeout_s=timeout_s)


def host_step(
    device: Derivation,
    root: Derivation,
    machine: Machine,
    build: Platform,
    *,
    python: str = PYTHON,
    timeout_s: int = TIMEOUT_S,
) -> Derivation:
    """Compile a host's part of a unit: what comes out is the unit's place in a cache on such machines."""
    arguments: dict[str, Json] = {
        "part": "host",
        "machine": machine,
        "python": python,
        "sandbox": sandbox_settings(),
    }
    inputs = {"root": reference(root), "device": reference(device)}
    host = _PLATFORM[machine]
    name = f"{device.name}@{host}"
    return step(name, "kernel", arguments, inputs, build=build, host=host, timeout_s=timeout_s)


def index_step(name: str, units: Sequence[tuple[Unit, Derivation]], host: Platform) -> Derivation:
    """List compiled units for whoever loads them on a host, with the folders that TileLang wants to find."""
    ordered = sorted(units, key=lambda one: one[0].name)
    arguments: dict[str, Json] = {"part": "index", "units": [unit.document() for unit, _ in ordered]}
    inputs = {f"device.{index}": reference(device) for index, (_, device) in enumerate(ordered)}
    return step(name, "kernel", arguments, inputs, host=host)
