# SPDX-License-Identifier: Apache-2.0
"""What follows from what a recipe says, as a table of rules: nobody types these values.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from derive.canonical import Json
from derive.errors import expected_got
from derive.fabric.cabling import NODES
from derive.recipes.check import shown
from derive.recipes.merge import KeyPath, Tables, find

Given: TypeAlias = "Mapping[KeyPath, Json]"

_BF16_BYTES = 2
_MOST_ROWS = 2**16
"""A graph is captured for each eighth row: thousands of graphs are no recipe's meaning."""
_CAPACITY_DIGITS = 15
_OF_FABRIC = (
    *("NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_TC"),
    *("B12X_ROCE_PEER_HCAS", "B12X_ROCE_GID_INDEX", "B12X_ROCE_TRAFFIC_CLASS"),
    *("SPARKNET_ROCE_PEER_HCAS", "SPARKNET_ROCE_GID_INDEX", "SPARKNET_ROCE_TRAFFIC_CLASS"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: ``gives`` are the keys that it fills, ``reads`` those that it looks at, ``text`` is what it says.

    ``program`` is the served program whose shapes it applies to, None for all. ``derive`` returns nothing where what it
    needs is not written, and raises Unusable when what is written leaves no value; it is None where values are looked
    up elsewhere: in ``fabric/``, in a lock, or, ``each_node``, in a site.
    """

    id: str
    gives: tuple[KeyPath, ...]
    reads: tuple[KeyPath, ...]
    text: str
    program: Literal["vllm"] | None = "vllm"
    derive: Callable[[Tables], Given] | None = None
    each_node: bool = False


class Unusable(ValueError):
    """A value that a rule cannot go on from; ``path`` is its key, or the first of those that together leave none."""

    def __init__(self, path: KeyPath, message: str, detail: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.path = path
        self.detail = detail


_SEQUENCES = ("arguments", "max-num-seqs")
_BUDGET = ("arguments", "max-num-batched-tokens")
_SPECULATIVE = ("arguments", "speculative-config")
_DRAFTS = (*_SPECULATIVE, "num_speculative_tokens")
_CABLING = ("cabling",)
_BACKEND = ("kernel-backend",)
_CAPACITY = ("environment", "SPARKNET_ROCE_ALLREDUCE_CAPACITY_BYTES")
_HIDDEN = ("model", "hidden-size")
ROWS = ("limits", "one-shot-rows")


def _integer(tables: Tables, path: KeyPath, least: int = 1) -> int | None:
    value = find(tables, path)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        detail = expected_got(f"a whole number, {least} or more", shown(value))
        raise Unusable(path, "not a number that rules can count with", detail)
    return value


def _steps(tables: Tables) -> int | None:
    """Return the rows of a step in which every sequence verifies all its drafts."""
    sequences, drafts = _integer(tables, _SEQUENCES), _integer(tables, _DRAFTS, least=0) or 0
    if sequences is None:
        return None
    rows = sequences * (1 + drafts)
    if rows > _MOST_ROWS:
        path = _SEQUENCES if sequences > drafts else _DRAFTS
        detail = expected_got(f"max-num-seqs x (1 + drafts) of {_MOST_ROWS} at most", f"{sequences} x (1 + {drafts})")
        raise Unusable(path, "a step of decode with more rows than graphs can be captured for", detail)
    return rows


def _nodes(tables: Tables) -> int | None:
    """Return how many machines the cabling joins."""
    cabling = find(tables, _CABLING)
    return next((count for name, count in NODES.items() if name == cabling), None)


def _ranks(tables: Tables) -> Given:
    nodes = _nodes(tables)
    return {} if nodes is None else {("arguments", "nnodes"): nodes, ("arguments", "tensor-parallel-size"): nodes}


def _draft_ranks(tables: Tables) -> Given:
    nodes = _nodes(tables)
    if nodes is None or find(tables, _SPECULATIVE) is None:
        return {}
    return {(*_SPECULATIVE, "draft_tensor_parallel_size"): nodes}


def _long_prefill(tables: Tables) -> Given:
    budget, rows = _integer(tables, _BUDGET), _steps(tables)
    if budget is None or rows is None:
        return {}
    if budget <= rows:
        raise Unusable(_BUDGET, f"{budget} tokens of a step leave no room for a prefill beside {rows} of decode")
    return {("arguments", "long-prefill-token-threshold"): budget - rows}


def capture_sizes(most: int) -> list[int]:
    """Return the batch sizes whose graphs are captured: close together where a step is short."""
    wanted = [1, 2, 3, *range(4, 8, 2), *range(8, 32, 4), *range(32, most, 8)]
    return [*(size for size in wanted if size < most), most]


def _capture(tables: Tables) -> Given:
    rows = _steps(tables)
    if rows is None:
        return {}
    return {
        ("arguments", "max-cudagraph-capture-size"): rows,
        ("arguments", "compilation-config", "cudagraph_capture_sizes"): capture_sizes(rows),
    }


def _port(tables: Tables) -> Given:
    port = _integer(tables, ("service", "port"))
    return {} if port is None else {("arguments", "port"): port}


def _backend(tables: Tables) -> Given:
    return {_BACKEND: find(tables, _BACKEND) or "b12x"}


def _rows(tables: Tables) -> Given:
    capacity, hidden = find(tables, _CAPACITY), _integer(tables, _HIDDEN)
    if not (isinstance(capacity, str) and capacity.isascii() and capacity.isdecimal()) or hidden is None:
        return {}
    if len(capacity) > _CAPACITY_DIGITS:
        detail = expected_got(f"{_CAPACITY_DIGITS} digits at most", shown(capacity))
        raise Unusable(_CAPACITY, "more bytes than any memory has", detail)
    return {ROWS: int(capacity) // (hidden * _BF16_BYTES)}


RULES: tuple[Rule, ...] = (
    Rule(
        id="pin",
        gives=(),
        reads=(("model", "set"), ("model", "huggingface")),
        text="repository and revision of the checkpoint are those of its lock",
        program=None,
    ),
    Rule(
        id="model-mount",
        gives=(("mounts", "model"),),
        reads=(("model", "target"), ("model", "repository")),
        text="the checkpoint's folder of the Hugging Face cache is mounted whole, so that links in it resolve",
        program=None,
    ),
    Rule(
        id="kernel-backend",
        gives=(),
        reads=(_BACKEND,),
        text="a shape that names no kernel backend has b12x",
        derive=_backend,
    ),
    Rule(
        id="transport",
        gives=(),
        reads=(("transport",),),
        text="what the transport requires, in fabric/transports.toml",
        program=None,
    ),
    Rule(
        id="tuning",
        gives=(),
        reads=(("tuning",), ("transport",)),
        text="what the profile in fabric/tuning/ says for the transport; a recipe may say otherwise",
        program=None,
    ),
    Rule(
        id="kernels",
        gives=(),
        reads=(_BACKEND,),
        text="options and variables of the kernel backend, in fabric/transports.toml",
    ),
    Rule(
        id="ranks",
        gives=(("arguments", "tensor-parallel-size"), ("arguments", "nnodes")),
        reads=(_CABLING,),
        text="one rank for each machine: three in a triangle, four in a ring",
        derive=_ranks,
    ),
    Rule(
        id="draft-ranks",
        gives=((*_SPECULATIVE, "draft_tensor_parallel_size"),),
        reads=(_CABLING,),
        text="the drafter is split over as many ranks as the model",
        derive=_draft_ranks,
    ),
    Rule(
        id="long-prefill",
        gives=(("arguments", "long-prefill-token-threshold"),),
        reads=(_BUDGET, _SEQUENCES, _DRAFTS),
        text="max-num-batched-tokens - max-num-seqs x (1 + drafts): a prefill leaves each sequence its step of decode",
        derive=_long_prefill,
    ),
    Rule(
        id="capture",
        gives=(
            ("arguments", "max-cudagraph-capture-size"),
            ("arguments", "compilation-config", "cudagraph_capture_sizes"),
        ),
        reads=(_SEQUENCES, _DRAFTS),
        text="graphs up to max-num-seqs x (1 + drafts) rows: 1, 2, 3, 4, 6, then each 4th to 32, then each 8th",
        derive=_capture,
    ),
    Rule(
        id="port",
        gives=(("arguments", "port"),),
        reads=(("service", "port"),),
        text="the service listens where it is waited for",
        derive=_port,
    ),
    Rule(
        id="one-shot-rows",
        gives=(ROWS,),
        reads=(_CAPACITY, _HIDDEN),
        text="capacity / (hidden-size x 2 bytes): rows in one message; with one more, ranks split a prefill",
        derive=_rows,
    ),
    Rule(
        id="node-rank",
        gives=(
            ("arguments", "node-rank"),
            ("arguments", "master-addr"),
            ("arguments", "master-port"),
            ("arguments", "headless"),
        ),
        reads=(("service", "master-port"),),
        each_node=True,
        text="each node's rank in the order of the site; the head's address; all but the head are headless",
    ),
    Rule(
        id="node-addresses",
        gives=tuple(("environment", name) for name in ("VLLM_HOST_IP", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")),
        reads=(),
        each_node=True,
        text="each node's management address and interface, as the site says",
    ),
    Rule(
        id="node-fabric",
        gives=tuple(("environment", name) for name in _OF_FABRIC),
        reads=(("transport",),),
        each_node=True,
        text="each node's RDMA devices, and which of them reach which peer, as the site's cables say",
    ),
)
"""Every rule, in the order in which they apply: one may read what an earlier one gave."""


def rules_for(program: Json) -> tuple[Rule, ...]:
    """Return the rules that apply to shapes of a served program."""
    return tuple(rule for rule in RULES if rule.program is None or rule.program == program)


def rule_named(name: str) -> Rule | None:
    """Return a rule by its id."""
    return next((rule for rule in RULES if rule.id == name), None)
