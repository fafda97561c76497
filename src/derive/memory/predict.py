# SPDX-License-Identifier: Apache-2.0
"""The lines of a ledger, and the constants that no arithmetic gives, fitted to one deployment that ran.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeAlias

from derive.memory import estimates, weights
from derive.memory.facts import Conditions, Facts, Tensor
from derive.memory.kv import Capacity, Layout, capacity, fitted_layout

Basis: TypeAlias = Literal["set", "measured", "fitted", "predicted", "estimated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a ledger: what it is, its bytes on one rank, how much is known of it, and where from.

    ``line`` is one of the ten lines, ``item`` a part of it or the line's own name. ``basis``: a value of the recipe
    (set), read from a machine (measured), taken from one deployment and used for others (fitted), computed from shapes
    and formats (predicted), or a count of the buffers that are known of (estimated).
    """

    line: str
    item: str
    bytes: int
    basis: Basis
    source: str

    @property
    def name(self) -> str:
        """The line, and the part of it where it has parts."""
        return self.line if self.item == self.line else f"{self.line}: {self.item}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """What was fitted, in bytes: ``load`` on top of the weights, ``graphs`` for ``captured`` sizes, ``host``.

    ``layout`` is that of the windows in the KV cache.
    """

    load: int
    graphs: int
    captured: int
    host: int
    layout: Layout


def constants(facts: Facts) -> Constants:
    """Take from the deployments that ``fit`` names what no arithmetic gives."""
    loaded = facts.measured[facts.fit.weights]
    table = weights.total(weights.shares(facts.tensors, loaded.conditions.ranks, loaded.conditions.formats))
    graphs = facts.measured[facts.fit.graphs]
    partly = Constants(
        load=max(0, (loaded.weights or 0) - table),
        graphs=graphs.graphs or 0,
        captured=len(graphs.conditions.captured),
        host=0,
        layout=fitted_layout(facts.measured[facts.fit.kv], facts.cache),
    )
    ran = facts.measured[facts.fit.host]
    usable = facts.fit.usable_bytes
    taken = sum(row.bytes for row in rows(ran.conditions, facts, partly, usable=usable, floor=0))
    return Constants(
        load=partly.load,
        graphs=partly.graphs,
        captured=partly.captured,
        host=max(0, usable - (ran.available or 0) - taken),
        layout=partly.layout,
    )


def kv_capacity(conditions: Conditions, facts: Facts, found: Constants | None = None) -> Capacity:
    """Return what the KV cache holds: by the fitted layout of windows where the fit's format is the same."""
    ran = facts.measured[facts.fit.kv]
    if conditions.kv_format != ran.conditions.kv_format:
        return capacity(conditions, facts.cache)
    layout = found.layout if found is not None else fitted_layout(ran, facts.cache)
    return capacity(conditions, facts.cache, layout=layout)


def rows(
    conditions: Conditions,
    facts: Facts,
    found: Constants,
    *,
    usable: int,
    floor: int,
    checkpoint: Sequence[Tensor] = (),
) -> tuple[Row, ...]:
    """Return all lines of a deployment, in their order; tensors of a checkpoint stand in for those of the table."""
    lines = (
        _weights(conditions, facts, found, checkpoint),
        _caches(conditions, facts, found),
        _rest(conditions, facts, found, usable, floor),
    )
    return tuple(chain.from_iterable(lines))


def _caches(conditions: Conditions, facts: Facts, found: Constants) -> Iterator[Row]:
    if facts.engram is not None:
        yield _engram(conditions, facts)
    format_text = f"the recipe's kv-cache-memory-bytes, as {conditions.kv_format}"
    yield _row("KV cache", conditions.kv_bytes, "set", format_text)
    yield _row(
        "graph capture",
        estimates.graph_bytes(found.graphs, len(conditions.captured), max(1, found.captured)),
        "fitted",
        f"{len(conditions.captured)} sizes, by {facts.fit.graphs}'s {found.captured}",
    )
    yield _row(
        "activations",
        estimates.activation_bytes(facts.activations, conditions),
        "estimated",
        f"{conditions.batched_tokens:,} rows of the widest layer",
    )


def _rest(conditions: Conditions, facts: Facts, found: Constants, usable: int, floor: int) -> Iterator[Row]:
    if conditions.carveout_bytes:
        text = "weights laid where Linux does not count"
        yield _row("display carve-out", -conditions.carveout_bytes, "measured", text)
    else:
        yield _row("display carve-out", 0, "set", "not used by this engine")
    text = "channels, connections and buffer sizes of the environment"
    yield _row("NCCL buffers", estimates.nccl_bytes(conditions.environment), "estimated", text)
    text = f"pages of {conditions.page_bytes // 1024} KiB, mapped twice"
    yield _row("page tables", estimates.page_table_bytes(usable, conditions.page_bytes), "estimated", text)
    text = f"what {facts.fit.host}'s MemAvailable leaves unexplained"
    yield _row("host and processes", found.host, "fitted", text)
    yield _row("guard floor", floor, "set", "the recipe's guard.steady.floor")


def _row(line: str, size: int, basis: Basis, source: str) -> Row:
    return Row(line=line, item=line, bytes=size, basis=basis, source=source)


def _weights(conditions: Conditions, facts: Facts, found: Constants, checkpoint: Sequence[Tensor]) -> Iterator[Row]:
    parts = weights.shares(checkpoint or facts.tensors, conditions.ranks, conditions.formats)
    groups: dict[str, list[weights.Share]] = {}
    for part in parts:
        groups.setdefault(part.tensor.group, []).append(part)
    shapes = "shapes of the checkpoint" if checkpoint else "shapes of the tensor table"
    for group, members in groups.items():
        told = next((part.tensor.source for part in members if part.tensor.source is not None), None)
        size = sum(part.own for part in members)
        basis: Basis = "predicted" if told is None else "measured"
        yield Row(line="weights", item=group, bytes=size, basis=basis, source=told or shapes)
    padding = sum(part.padding for part in parts)
    text = (
        f"units that do not divide by {conditions.ranks} ranks"
        if padding
        else f"all divide by {conditions.ranks} ranks"
    )
    yield Row(line="weights", item="padding", bytes=padding, basis="predicted", source=text)
    text = f"what {facts.fit.weights} measured beyond its tensors"
    yield Row(line="weights", item="loading", bytes=found.load, basis="fitted", source=text)


def _engram(conditions: Conditions, facts: Facts) -> Row:
    if conditions.engram == "disk" or facts.engram is None:
        return Row(line="Engram", item="tables on disk", bytes=0, basis="set", source="the recipe's memory.engram")
    heads = -(-facts.engram.heads // conditions.ranks)
    size = weights.engram_bytes(facts.engram, conditions.ranks)
    source = f"{heads} of {facts.engram.heads} hash heads of {facts.engram.tables} tables"
    return Row(line="Engram", item="tables in memory", bytes=size, basis="predicted", source=source)
