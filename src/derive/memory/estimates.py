# SPDX-License-Identifier: Apache-2.0
"""What nobody measured line by line, estimated from shapes and settings: activations, NCCL's buffers, page tables.

Core: no IO. Standard library only.

Each is a count of buffers that are known to exist, not of all that may; what they leave out is in the line of the host,
which is fitted to what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from derive.memory.facts import Activations, Conditions

_LL_BYTES = 512 * 8 * 8 * 16
_LL128_BYTES = 640 * 120 * 8 * 8
_BUFFER_BYTES = 4 * 2**20
_CHANNELS = 8
_COMMUNICATORS = 2
_PADDED_HEADS = 32
_ENTRY = 8
_DIGITS = re.compile("[0-9]{1,15}")


def activation_bytes(sizes: Activations, conditions: Conditions) -> int:
    """Return the bytes of the widest layer's activations for a step of the largest budget.

    For each row: the residual streams three times over (in, out, mixed), BF16; queries and outputs of the rank's heads,
    which FlashInfer takes as 32 at least; of each expert its quantised input, both products, the quantised product of
    these, and its output; of Engram the looked-up rows and keys.
    """
    ranks = conditions.ranks
    heads = max(_PADDED_HEADS, -(-sizes.heads // ranks))
    width = -(-sizes.expert_width // ranks)
    row = (
        3 * sizes.streams * sizes.hidden * 2
        + 2 * heads * sizes.head * 2
        + sizes.experts_per_row * (sizes.hidden + 2 * width * 2 + width + sizes.hidden * 2)
        + sizes.engram_columns * 2
    )
    return conditions.batched_tokens * row


def nccl_bytes(environment: Mapping[str, str]) -> int:
    """Return the bytes of NCCL's buffers: for each channel and connection one of each protocol.

    A channel of a ring has one connection out and one in. Unless the algorithm is the ring alone, there are those of
    the tree too: at most two neighbours, both ways. Two communicators: vLLM's own and torch's.
    """
    buffer = _number(environment, "NCCL_BUFFSIZE", _BUFFER_BYTES)
    ll128 = _number(environment, "NCCL_LL128_BUFFSIZE", _LL128_BYTES)
    channels = _number(environment, "NCCL_MAX_NCHANNELS", _CHANNELS)
    channels = max(channels, _number(environment, "NCCL_MIN_NCHANNELS", 0))
    connections = 2 if environment.get("NCCL_ALGO") == "Ring" else 6
    return _COMMUNICATORS * channels * connections * (buffer + _LL_BYTES + ll128)


def page_table_bytes(usable: int, page_bytes: int) -> int:
    """Return the bytes of page tables that map all memory twice: for the processor, and for the GPU."""
    return 2 * _ENTRY * -(-usable // page_bytes)


def graph_bytes(measured: int, graphs: int, of: int) -> int:
    """Return what ``graphs`` captured graphs take, by those of a deployment where ``of`` took ``measured`` bytes."""
    return -(-measured * graphs // of)


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    return int(text) if _DIGITS.fullmatch(text) else default
