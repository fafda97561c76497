# SPDX-License-Identifier: Apache-2.0
"""The memory ledger of one rank: every line with its bytes and where they come from, against what Linux may use.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from derive.errors import InputErrors, Problem
from derive.memory.compare import Comparison, compare
from derive.memory.conditions import Settings, settings
from derive.memory.facts import Conditions, Facts
from derive.memory.kv import FORMATS, Capacity
from derive.memory.load import load_facts
from derive.memory.predict import Row, constants, kv_capacity, rows
from derive.memory.weights import engram_bytes
from derive.recipes.resolved import Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What a shape takes of each rank. Sizes in bytes.

    ``total_bytes`` is the sum of all rows, the guard's floor included; ``available_bytes`` the MemAvailable predicted,
    that is what is left when the floor is not counted. ``held`` is how predictions by the same rules come out where
    something was measured.
    """

    recipe: str
    shape: str
    conditions: Conditions
    facts: Facts
    rows: tuple[Row, ...]
    usable_bytes: int
    usable_source: str
    startup_floor_bytes: int
    kv: Capacity
    held: tuple[Comparison, ...]
    notes: tuple[str, ...]

    @property
    def total_bytes(self) -> int:
        """The sum of all rows."""
        return sum(row.bytes for row in self.rows)

    @property
    def free_bytes(self) -> int:
        """What is left of the usable memory; below 0 when the shape does not fit."""
        return self.usable_bytes - self.total_bytes

    @property
    def available_bytes(self) -> int:
        """MemAvailable as predicted."""
        return self.free_bytes + sum(row.bytes for row in self.rows if row.line == "guard floor")

    @property
    def startup_short_bytes(self) -> int:
        """How far the MemAvailable predicted is below the floor at which the startup guard kills; 0 when above."""
        return max(0, self.startup_floor_bytes - self.available_bytes)

    @property
    def breaks(self) -> Row | None:
        """The line that breaks the shape: the first at which the sum passes what is usable; None when it fits.

        It is the KV cache's when all fits but one request of full length has no room in it.
        """
        if self.free_bytes < 0:
            sums = accumulate(row.bytes for row in self.rows)
            return next(row for row, so_far in zip(self.rows, sums, strict=True) if so_far > self.usable_bytes)
        if self.kv.blocks < self.kv.request_blocks:
            return next(row for row in self.rows if row.line == "KV cache")
        return None

    @property
    def fits(self) -> bool:
        """Whether memory suffices, and one request of full length has room in the KV cache."""
        return self.breaks is None

    @property
    def fitting_kv_bytes(self) -> int | None:
        """The largest KV cache that would fit, in whole blocks; None when not even one request of full length would."""
        room = self.conditions.kv_bytes + self.free_bytes
        room -= room % self.kv.block_bytes
        return room if room >= self.kv.least_bytes else None


def judge(resolved: Resolved, files: Mapping[str, bytes]) -> Ledger | None:
    """Return the ledger of a shape, its facts read from the project's files; None when it has no ``[memory]``.

    Raises:
        InputErrors: on a wrong ``[memory]``, and on wrong or missing facts.
    """
    return ledger(resolved, facts_of(resolved, files)) if resolved.memory else None


def facts_of(resolved: Resolved, files: Mapping[str, bytes]) -> Facts:
    """Read the facts that a shape's ``[memory]`` names.

    Raises:
        InputErrors: on a wrong ``[memory]``, and on wrong or missing facts.
    """
    told = settings(resolved)
    data = files.get(told.facts)
    if data is None:
        where = f"recipes/{resolved.recipe}.toml: memory.facts"
        raise InputErrors.one(f"there is no {told.facts}", where=where, hint="name a file below recipes/")
    return load_facts(data, told.facts)


def ledger(resolved: Resolved, tensors: Facts) -> Ledger:
    """Return the ledger of a shape that has a ``[memory]`` table, by facts of its model.

    Raises:
        InputErrors: on a wrong ``[memory]``, or one that does not agree with the facts.
    """
    return _ledger(resolved, settings(resolved), tensors)


def _ledger(resolved: Resolved, told: Settings, facts: Facts) -> Ledger:
    unknown = sorted(set(told.conditions.formats) - {tensor.name for tensor in facts.tensors})
    if unknown:
        where = f"recipes/{resolved.recipe}.toml: memory.formats"
        raise InputErrors(
            [Problem(where=f"{where}.{name}", message=f"no such tensor in {facts.file}") for name in unknown]
        )
    found = constants(facts)
    kv = kv_capacity(told.conditions, facts, found)
    return Ledger(
        recipe=resolved.recipe,
        shape=resolved.shape,
        conditions=told.conditions,
        facts=facts,
        rows=rows(
            told.conditions,
            facts,
            found,
            usable=told.usable,
            floor=told.steady_floor,
            checkpoint=facts.checkpoint,
        ),
        usable_bytes=told.usable,
        usable_source=told.usable_source,
        startup_floor_bytes=told.startup_floor,
        kv=kv,
        held=compare(facts, found),
        notes=tuple(_notes(told, facts)),
    )


def _notes(told: Settings, facts: Facts) -> Iterable[str]:
    conditions = told.conditions
    yield f"KV cache: {FORMATS[conditions.kv_format].doc}"
    if not facts.checkpoint:
        yield f"weights: {facts.source}"
    if conditions.engram == "memory" and facts.engram is not None:
        each = engram_bytes(facts.engram, conditions.ranks) // facts.engram.tables
        if each & (each - 1):
            yield "Engram: vLLM rounds each table up to a power of two in pinned memory (cpu_offload without use_thp)"


def problems(found: Ledger) -> list[Problem]:
    """Say why a shape does not fit: the line that breaks it, how much it is over, and one next step."""
    row = found.breaks
    if row is None:
        return []
    where = f"recipes/{found.recipe}.toml: shapes.{found.shape}"
    if found.free_bytes >= 0:
        least = found.kv.least_bytes
        return [
            Problem(
                where=where,
                message=f"one request of {found.conditions.context:,} tokens has no room in the KV cache",
                detail=(f"expected  {least:,} bytes at least", f"got       {found.conditions.kv_bytes:,} bytes"),
                hint=_room(found, least),
            )
        ]
    over = -found.free_bytes
    detail = (
        f"expected  {found.usable_bytes:,} bytes at most",
        f"got       {found.total_bytes:,} bytes, {over:,} over",
    )
    message = f"does not fit a rank's memory: {row.name} ({gib(row.bytes)} GiB) is the line that breaks it"
    return [Problem(where=where, message=message, detail=detail, hint=_next_step(found, over))]


def unfit(found: Ledger) -> str | None:
    """Say in half a line what does not fit, for a manifest; None when all does."""
    row = found.breaks
    if row is None:
        return None
    if found.free_bytes >= 0:
        return f"{row.line}: one request of {found.conditions.context:,} tokens has no room in {gib(row.bytes)} GiB"
    return f"{row.line}: a rank would take {gib(found.total_bytes)} of {gib(found.usable_bytes)} GiB"


def _room(found: Ledger, least: int) -> str:
    if least - found.conditions.kv_bytes <= found.free_bytes:
        return f"set kv-cache-memory-bytes to {least} ({gib(least)} GiB), which fits"
    return f"shorten max-model-len: a KV cache of {gib(least)} GiB does not fit either"


def _next_step(found: Ledger, over: int) -> str:
    if found.conditions.engram == "memory" and found.facts.engram is not None:
        return 'leave the tables on disk: memory.engram = "disk"'
    if (most := found.fitting_kv_bytes) is not None:
        return f"set kv-cache-memory-bytes to {most} ({gib(most)} GiB) or less"
    return f"{gib(over)} GiB are missing, more than the KV cache can give: take more ranks, or a shorter max-model-len"


def gib(size: int) -> str:
    """Write bytes in GiB with two decimals, half up."""
    hundredths = (abs(size) * 200 + 2**30) // 2**31
    return f"{'-' if size < 0 and hundredths else ''}{hundredths // 100}.{hundredths % 100:02}"
