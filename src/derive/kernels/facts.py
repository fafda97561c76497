# SPDX-License-Identifier: Apache-2.0
"""What the compile of a unit says of its machine code: registers, memory, spills, matrix instructions, cache keys.

Core: no IO. The step that compiles writes ``resources.json`` and ``launch.json`` into its output; they are read here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from derive.canonical import Digest, Json
from derive.errors import Corrupt

RESOURCES = "resources.json"
LAUNCH = "launch.json"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a kernel's machine code needs and holds.

    ``registers`` are those of one thread, ``static_shared_memory_bytes`` those of one block; spills and ``stack_bytes``
    are of one thread, and lie in local memory. ``instructions`` counts the listing's lines, ``matrix_instructions`` by
    full name. ``sass_sha256`` is that of the listing, in hex.
    """

    registers: int
    static_shared_memory_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    instructions: int
    matrix_instructions: Mapping[str, int]
    sass_sha256: str
    compiler: Mapping[str, str]

    @property
    def spill_bytes(self) -> int:
        """Bytes stored to and loaded from local memory because registers ran out."""
        return self.spill_store_bytes + self.spill_load_bytes

    def document(self) -> dict[str, Json]:
        """Return the facts as they stand in a record."""
        return {
            "registers": self.registers,
            "static_shared_memory_bytes": self.static_shared_memory_bytes,
            "spill_store_bytes": self.spill_store_bytes,
            "spill_load_bytes": self.spill_load_bytes,
            "stack_bytes": self.stack_bytes,
            "instructions": self.instructions,
            "matrix_instructions": dict(sorted(self.matrix_instructions.items())),
            "sass_sha256": self.sass_sha256,
            "compiler": dict(sorted(self.compiler.items())),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a kernel is found and started.

    ``keys`` maps a machine (``x86_64``) to the name of the kernel's entry in the cache for it, ``binary_key`` names the
    cubin there; ``entry`` is the symbol. Sizes that depend on the rows are None.
    """

    keys: Mapping[str, str]
    binary_key: str
    entry: str
    block: tuple[int, ...] | None
    dynamic_shared_memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that the compile of one unit says."""

    resources: Resources
    launch: Launch

    @property
    def shared_memory_bytes(self) -> int:
        """Shared memory of one block, as far as it is known before a launch."""
        return self.resources.static_shared_memory_bytes + (self.launch.dynamic_shared_memory_bytes or 0)


def parse_resources(data: bytes, where: str) -> Resources:
    """Read ``resources.json``; raises Corrupt, naming the unit."""

    def read(document: Mapping[str, Any]) -> Resources:
        return Resources(
            registers=_count(document["registers"]),
            static_shared_memory_bytes=_count(document["static-shared-memory-bytes"]),
            spill_store_bytes=_count(document["spill-store-bytes"]),
            spill_load_bytes=_count(document["spill-load-bytes"]),
            stack_bytes=_count(document["stack-bytes"]),
            instructions=_count(document["instructions"]),
            matrix_instructions={name: _count(count) for name, count in document["matrix-instructions"].items()},
            sass_sha256=str(document["sass-sha256"]),
            compiler={name: str(version) for name, version in document["compiler"].items()},
        )

    return _parse(data, f"{where}: {RESOURCES}", read)


def parse_launch(data: bytes, where: str) -> Launch:
    """Read ``launch.json``; raises Corrupt, naming the unit."""

    def read(document: Mapping[str, Any]) -> Launch:
        block, dynamic = document.get("block"), document.get("dynamic-shared-memory")
        return Launch(
            keys={machine: str(key) for machine, key in document["keys"].items()},
            binary_key=str(document["binary-key"]),
            entry=str(document["entry"]),
            block=None if block is None else tuple(_count(size) for size in block),
            dynamic_shared_memory_bytes=None if dynamic is None else _count(dynamic),
        )

    return _parse(data, f"{where}: {LAUNCH}", read)


def clashes(facts: Mapping[str, Facts], cubins: Mapping[str, Digest | None]) -> Iterator[tuple[str, str]]:
    """Yield the units that a cache could not tell from an earlier one, and why: one key for two cubins.

    Units of one key and one cubin are one program under two names, and share their entry.
    """
    seen: dict[tuple[str, str], str] = {}
    binaries: dict[str, str] = {}
    for name, one in facts.items():
        others: dict[str, list[str]] = {}
        for machine, key in sorted(one.launch.keys.items()):
            other = seen.setdefault((machine, key), name)
            if cubins[other] != cubins[name]:
                others.setdefault(other, []).append(f"{key[:12]} on {machine}")
        for other, keys in others.items():
            yield name, f"has the cache key of {other}, and other machine code: {', '.join(keys)}"
        other = binaries.setdefault(one.launch.binary_key, name)
        if cubins[other] != cubins[name] and other not in others:
            yield name, f"has the binary key of {other}, and other machine code: {one.launch.binary_key[:12]}"


def _parse(data: bytes, where: str, read: Callable[[Mapping[str, Any]], T]) -> T:
    try:
        return read(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"no key {error}" if isinstance(error, KeyError) else str(error)
        hint = "this engine and the builder that wrote it do not agree: derive the unit again"
        raise Corrupt(f"not the facts of a kernel: {said}", where=where, hint=hint) from error


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} is no count")
    return value
