# SPDX-License-Identifier: Apache-2.0
"""Shapes as the memory ledger reads them, the facts of the one model, and small checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from derive.memory.facts import Facts
from derive.memory.load import load_facts
from derive.recipes.resolved import Container, GuardPhase, HostPolicy, Promotion, Ready, Resolved

FILE = "recipes/ds41f/memory.toml"
DATA = (Path(__file__).parents[2] / FILE).read_bytes()
GIB = 2**30

MEMORY: Mapping[str, Any] = {
    "facts": "ds41f/memory.toml",
    "usable": "119.7GiB",
    "usable-source": "measured",
    "engram": "disk",
    "kv-format": "vllm-0.33",
    "formats": {"wo-a": "bf16", "draft-wo-a": "bf16"},
}
FORMER: Mapping[str, Any] = {
    **MEMORY,
    "kv-format": "records",
    "formats": {"head": "packed-bf16"},
    "display-carveout": "552.3MiB",
}
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 88, 96)
_SHAPES: Mapping[str, tuple[int, int, int, int, int, int]] = {
    # ranks, window, sequences, rows, bytes of KV cache, page
    "tp4-ring": (4, 1048576, 16, 8192, 11274289152, 65536),
    "tp3-triangle": (3, 524288, 8, 4096, 3758096384, 65536),
    "tp3-triangle-4k": (3, 262144, 8, 4096, 2362232012, 4096),
}
_NCCL = {
    4: {"NCCL_ALGO": "Ring", "NCCL_BUFFSIZE": "4194304", "NCCL_MAX_NCHANNELS": "4"},
    3: {"NCCL_BUFFSIZE": "1048576", "NCCL_MAX_NCHANNELS": "8"},
}


@cache
def facts() -> Facts:
    """Return what is known of the model."""
    return load_facts(DATA, FILE)


def shape(name: str = "tp4-ring", memory: Mapping[str, Any] = MEMORY, **arguments: Any) -> Resolved:
    """Return a shape; keywords change arguments, with underscores for hyphens, and None takes one away."""
    ranks, window, sequences, rows, kv_bytes, page = _SHAPES[name]
    given: dict[str, Any] = {
        "max-model-len": window,
        "max-num-seqs": sequences,
        "max-num-batched-tokens": rows,
        "kv-cache-memory-bytes": kv_bytes,
        "async-scheduling": True,
        "compilation-config": {"cudagraph_capture_sizes": [size for size in _SIZES if size <= sequences * 6]},
        "speculative-config": {"num_speculative_tokens": 5},
    }
    given.update({key.replace("_", "-"): value for key, value in arguments.items()})
    return Resolved(
        recipe="ds41f",
        shape=name,
        doc="",
        image="ds41f",
        platform="linux/arm64",
        model=None,
        cabling="ring4" if ranks == 4 else "triangle",
        nodes=ranks,
        transport="nccl-ring",
        kernel_backend="b12x",
        schema=None,
        service="ds41f",
        entrypoint=(),
        positional=(),
        port=8000,
        master_port=9999,
        ready=Ready(path="/v1/models", timeout_seconds=3600),
        arguments={key: value for key, value in given.items() if value is not None},
        environment={**_NCCL[ranks], "NCCL_LL128_BUFFSIZE": "262144"},
        mounts=(),
        cache=None,
        container=Container(),
        guard=(
            GuardPhase(phase="startup", floor_bytes=5 * GIB, interval="0.25", wait_seconds=120),
            GuardPhase(phase="steady", floor_bytes=3 * GIB, interval="2"),
        ),
        host=HostPolicy(page_size=page),
        memory=memory,
        needs=(),
        promotion=Promotion(),
        notes=(),
        origins={},
    )


def fitted_to(name: str) -> Facts:
    """Return the facts with everything but the graphs fitted to another deployment."""
    return replace(facts(), fit=replace(facts().fit, kv=name, weights=name, host=name))


def shard(entries: Mapping[str, tuple[str, list[int]]]) -> bytes:
    """Return the bytes of a safetensors file that has a header and no data."""
    header = json.dumps({name: {"dtype": dtype, "shape": dims} for name, (dtype, dims) in entries.items()}).encode()
    return len(header).to_bytes(8, "little") + header
