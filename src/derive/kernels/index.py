# SPDX-License-Identifier: Apache-2.0
"""The index of a kernel cache: which units are in it, under which keys, and what their machine code needs.

Core: no IO. The document is on docs/builders/kernel.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derive.canonical import CanonicalError, Digest, Json, encode
from derive.errors import BuildFailed

INDEX = "ds41-kernels.json"
"""What the index is called at the top of a cache."""

CUBIN = "kernel.cubin"
LAUNCH = "launch.json"
RESOURCES = "resources.json"

_TEXTS = ("binary-key", "entry", "version")
_FROM_LAUNCH = ("keys", "binary-key", "entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A compiled unit: its document, and what its device's part says of itself."""

    unit: Mapping[str, Json]
    launch: Mapping[str, Json]
    resources: Mapping[str, Json]
    cubin: Digest

    @property
    def name(self) -> str:
        """What the unit is called."""
        return unit_name(self.unit)

    @property
    def version(self) -> str:
        """The TileLang that compiled it, whose name its places in a cache have."""
        return str(self.launch["version"])


def unit_name(unit: Mapping[str, Json]) -> str:
    """Return what the unit of a document is called."""
    return "/".join(str(unit[key]) for key in ("kernel", "program", "shape", "tile", "gpu"))


def read_compiled(unit: Mapping[str, Json], launch: bytes, resources: bytes, cubin: Digest) -> Compiled:
    """Read what the compiler wrote beside a cubin.

    Raises:
        BuildFailed: when it is not what a compiler of this builder's version writes.
    """
    name = unit_name(unit)
    found = _object(launch, f"{name}: {LAUNCH}")
    keys = found.get("keys")
    if not isinstance(keys, Mapping) or not keys or not all(isinstance(key, str) for key in keys.values()):
        raise _odd(f"{name}: {LAUNCH}", "keys is no table of texts")
    for key in _TEXTS:
        if not isinstance(found.get(key), str):
            raise _odd(f"{name}: {LAUNCH}", f"{key} is no text")
    return Compiled(unit=unit, launch=found, resources=_object(resources, f"{name}: {RESOURCES}"), cubin=cubin)


def index_document(compiled: Sequence[Compiled]) -> bytes:
    """Return the bytes of the index; its order is that of the units' names.

    Raises:
        BuildFailed: when more than one version of TileLang compiled them: a cache is for one.
    """
    version_of(compiled)
    units: list[Json] = [
        {
            "unit": one.name,
            **one.unit,
            **{key: one.launch[key] for key in _FROM_LAUNCH},
            "cubin-sha256": one.cubin.hex,
            "resources": one.resources,
        }
        for one in sorted(compiled, key=lambda one: one.name)
    ]
    return encode({"derive": "kernel-index/1", "tilelang": version_of(compiled), "units": units}) + b"\n"


def version_of(compiled: Sequence[Compiled]) -> str:
    """Return the one version of TileLang that compiled some units; raises BuildFailed where there are several."""
    versions = sorted({one.version for one in compiled})
    if len(versions) != 1:
        raise BuildFailed(
            "a kernel cache is for one version of TileLang", detail=[f"got       {', '.join(versions) or 'no unit'}"]
        )
    return versions[0]


def folders(version: str, machine: str) -> tuple[str, ...]:
    """Return the folders that TileLang makes before it looks for anything, in a tree that nobody can write to."""
    top = f"{version}/linux-{machine}"
    return (f"{top}/.staging", f"{top}/kernels")


def _object(data: bytes, where: str) -> Mapping[str, Json]:
    try:
        value: Any = json.loads(data)
        encode(value)
    except (ValueError, CanonicalError, RecursionError) as error:
        raise _odd(where, str(error)) from error
    if not isinstance(value, dict):
        raise _odd(where, "no object")
    return value


def _odd(where: str, why: str) -> BuildFailed:
    return BuildFailed(f"the compiler wrote something else than its facts: {why}", where=where)
