# SPDX-License-Identifier: Apache-2.0
"""From a file of facts to values: every problem at once, each with file and key path.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from derive.errors import InputErrors, Problem
from derive.memory.facts import (
    FORMS,
    Activations,
    Cache,
    Conditions,
    Engram,
    Facts,
    Fit,
    KvFormat,
    Measured,
    Source,
    Split,
    Tensor,
)
from derive.memory.tables import Table
from derive.toml import parse_toml

FORMAT = 1
KV_FORMATS = ("records", "vllm-0.33")
_SPLITS = ("none", "rows", "columns")


def load_facts(data: bytes, file: str) -> Facts:
    """Read a file of facts.

    Raises:
        InputErrors: all that is wrong with it.
    """
    values, problems = parse_toml(data, file)
    top = Table(file, "", values or {}, problems)
    if values is None:
        raise InputErrors(problems)
    if top.integer("format") != FORMAT and not problems:
        top.problem("format", f"is to be {FORMAT}", f"got       {values['format']}")
    tensors = _tensors(top.table("tensors"))
    measured = _measured(top.table("measured"), frozenset(tensor.name for tensor in tensors))
    facts = Facts(
        file=file,
        model=top.text("model"),
        source=top.text("source"),
        tensors=tensors,
        engram=_engram(top.table("engram")) if top.has("engram") else None,
        cache=_cache(top.table("cache")),
        activations=_activations(top.table("activations")),
        fit=_fit(top.table("fit"), measured),
        measured=measured,
    )
    top.end()
    if problems:
        raise InputErrors(problems)
    return facts


def facts_problems(files: Mapping[str, bytes], recipe: str | None = None) -> list[Problem]:
    """Return what is wrong with the files of facts beside recipes, or beside one of them.

    For when a recipe cannot be read, and so does not say which file it means: all that is wrong is told at once.
    """
    problems: list[Problem] = []
    for path in sorted(files):
        name = path.removeprefix("recipes/").removesuffix("/memory.toml")
        if path == f"recipes/{name}/memory.toml" and recipe in (None, name):
            try:
                load_facts(files[path], path)
            except InputErrors as error:
                problems += error.problems()
    return problems


def _tensors(tables: Table) -> tuple[Tensor, ...]:
    found = []
    for name in tables.values:
        table = tables.table(name)
        found.append(_sized(table, name) if table.has("bytes") else _shaped(table, name))
        table.end()
    if not found:
        tables.problem("", "name at least one tensor")
    return tuple(found)


def _sized(table: Table, name: str) -> Tensor:
    return Tensor(
        name=name,
        group=table.text("group"),
        bytes=table.size("bytes"),
        match=table.text("match") if table.has("match") else None,
        source=table.text("source"),
    )


def _shaped(table: Table, name: str) -> Tensor:
    shape = table.integers("shape")
    if len(shape) != 2:
        if shape:
            table.problem("shape", "is to be two integers, rows and columns")
        shape = (1, 1)
    split = cast("Split", table.choice("split", _SPLITS, "none"))
    unit = table.integer("unit", 1)
    extent = shape[0] if split == "rows" else shape[1]
    if split != "none" and extent % unit:
        table.problem(
            "unit", "does not divide the axis that is split", f"expected  a divisor of {extent}", f"got       {unit}"
        )
    return Tensor(
        name=name,
        group=table.text("group"),
        count=table.integer("layers", 1) * table.integer("each", 1),
        rows=shape[0],
        columns=shape[1],
        form=table.choice("form", tuple(FORMS)),
        split=split,
        unit=unit,
        match=table.text("match") if table.has("match") else None,
    )


def _engram(table: Table) -> Engram:
    engram = Engram(
        tables=table.integer("tables"),
        heads=table.integer("heads"),
        rows=table.integer("rows"),
        row_bytes=table.integer("row-bytes"),
        match=table.text("match") if table.has("match") else None,
    )
    table.end()
    return engram


def _cache(table: Table) -> Cache:
    sources = []
    for one in table.tables("sources"):
        sources.append(Source(ratio=one.integer("ratio"), layers=one.integer("layers")))
        one.end()
    cache = Cache(
        block=table.integer("block"),
        window=table.integer("window"),
        window_layers=table.integer("window-layers"),
        sources=tuple(sources),
    )
    for source in cache.sources:
        if cache.block % source.ratio:
            table.problem("sources", f"a ratio of {source.ratio} does not divide a block of {cache.block}")
    table.end()
    return cache


def _activations(table: Table) -> Activations:
    activations = Activations(
        hidden=table.integer("hidden"),
        streams=table.integer("streams"),
        heads=table.integer("heads"),
        head=table.integer("head"),
        experts_per_row=table.integer("experts-per-row"),
        expert_width=table.integer("expert-width"),
        engram_columns=table.integer("engram-columns"),
    )
    table.end()
    return activations


def _fit(table: Table, measured: Mapping[str, Measured]) -> Fit:
    needed = {"kv": "kv_tokens", "weights": "weights", "graphs": "graphs", "host": "available"}
    names = {key: table.text(key) for key in needed}
    usable = table.size("usable")
    table.end()
    for key, name in names.items():
        if name and name not in measured:
            known = ", ".join(measured) or "none"
            table.problem(key, "names no measured deployment", f"expected  one of {known}", f"got       {name}")
        elif name and getattr(measured[name], needed[key]) is None:
            table.problem(key, f"names a deployment without {needed[key].replace('_', '-')}", f"got       {name}")
    return Fit(usable_bytes=usable, **names)


def _measured(tables: Table, tensors: frozenset[str]) -> dict[str, Measured]:
    found = {}
    for name in tables.values:
        table = tables.table(name)
        span = table.sizes("available-range") if table.has("available-range") else ()
        if table.has("available-range") and (len(span) != 2 or span[0] > span[1]):
            table.problem("available-range", "is to be two sizes, the lesser first")
            span = ()
        for unknown in sorted(set(table.table("formats", {}).values) - tensors):
            table.problem("formats", f"no such tensor: {unknown!r}")
        found[name] = Measured(
            name=name,
            doc=table.text("doc"),
            conditions=_conditions(table),
            other_engine=table.switch("another-engine"),
            kv_tokens=table.integer("kv-tokens") if table.has("kv-tokens") else None,
            weights=table.size("weights") if table.has("weights") else None,
            graphs=table.size("graphs") if table.has("graphs") else None,
            available=table.size("available") if table.has("available") else None,
            available_range=(span[0], span[1]) if span else None,
        )
        table.end()
    return found


def _conditions(table: Table) -> Conditions:
    return Conditions(
        ranks=table.integer("ranks"),
        page_bytes=table.size("page-size"),
        context=table.integer("max-model-len"),
        sequences=table.integer("max-num-seqs"),
        batched_tokens=table.integer("max-num-batched-tokens"),
        steps=table.integer("steps", 2),
        captured=table.integers("capture-sizes"),
        kv_bytes=table.integer("kv-bytes"),
        kv_format=cast("KvFormat", table.choice("kv-format", KV_FORMATS)),
        index_key_bytes=None,
        engram="memory" if table.choice("engram", ("disk", "memory"), "disk") == "memory" else "disk",
        formats=table.texts("formats", tuple(FORMS)),
        carveout_bytes=table.size("display-carveout", "0B"),
        environment=table.texts("environment"),
    )
