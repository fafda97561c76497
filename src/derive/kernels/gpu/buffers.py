# SPDX-License-Identifier: Apache-2.0
"""Tensors that a kernel writes to lie between guards, full of poison; tensors that are timed exist in many copies.

Edge: device memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch  # type: ignore[import-not-found]

GUARD_BYTES = 4096
POISONS = (0x5A, 0xA5)
"""Two runs, two poisons: what a run did not write differs between them."""

_ALIGNMENT = 256
_MOST_COPIES = 4096
_MOST_BYTES = 12 << 30
_CACHES = 3
"""Copies together are at least so many times the L2 cache."""

Tensors = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Guarded:
    """A tensor inside a larger buffer; ``whole`` is that buffer as bytes."""

    whole: Any
    tensor: Any

    @classmethod
    def make(cls, shape: tuple[int, ...], dtype: Any, device: Any) -> Guarded:
        """Allocate a tensor with guards of GUARD_BYTES before and behind it."""
        size = prod(shape) * dtype.itemsize
        whole = torch.empty(GUARD_BYTES + size + GUARD_BYTES, dtype=torch.uint8, device=device)
        return cls(whole, whole[GUARD_BYTES : GUARD_BYTES + size].view(dtype).view(shape))

    def poison(self, byte: int) -> None:
        """Fill tensor and guards. From the host's memory: a checker that counts launches sees none."""
        self.whole.copy_(torch.full((self.whole.numel(),), byte, dtype=torch.uint8))

    def is_guarded(self, byte: int) -> bool:
        """Say whether the guards still hold the poison."""
        size = self.tensor.numel() * self.tensor.element_size()
        before, behind = self.whole[:GUARD_BYTES].cpu(), self.whole[GUARD_BYTES + size :].cpu()
        return bool((before == byte).all()) and bool((behind == byte).all())


def allocate(outputs: Mapping[str, Any], device: Any) -> dict[str, Guarded]:
    """Allocate what a case or a peer declares as outputs."""
    return {name: Guarded.make(tuple(one.shape), one.dtype, device) for name, one in outputs.items()}


def as_bytes(tensor: Any) -> Any:
    """Return a tensor's bytes, row by row: [rows, bytes]."""
    rows = tensor.shape[0] if tensor.dim() else 1
    flat = tensor.contiguous().reshape(rows, -1) if tensor.numel() else tensor.reshape(rows, 0)
    return flat.view(torch.uint8)


def size_of(tensors: Tensors) -> int:
    """Return the bytes that tensors hold."""
    return sum(one.numel() * one.element_size() for one in tensors.values())


def copies_for(bytes_each: int, cache_bytes: int) -> int:
    """Return how many copies are rotated so that none is in the cache when its turn comes again."""
    enough = -(-_CACHES * cache_bytes // max(1, bytes_each)) + 1
    return max(1, min(max(3, enough), _MOST_COPIES, _MOST_BYTES // max(1, bytes_each)))


def copied(tensors: Tensors, count: int) -> list[dict[str, Any]]:
    """Return copies, each tensor's all in one block of memory, at places as aligned as an allocation of its own."""
    result: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, one in tensors.items():
        size = one.numel() * one.element_size()
        stride = -(-max(1, size) // _ALIGNMENT) * _ALIGNMENT
        block = torch.empty(count * stride, dtype=torch.uint8, device=one.device)
        for index, into in enumerate(result):
            view = block[index * stride : index * stride + size].view(one.dtype).view(one.shape)
            view.copy_(one)
            into[name] = view
    return result


def blank(outputs: Mapping[str, Any], device: Any) -> dict[str, Any]:
    """Allocate outputs without guards, for timing."""
    return {name: torch.empty(tuple(o.shape), dtype=o.dtype, device=device) for name, o in outputs.items()}


def own(state: Tensors) -> dict[str, Any]:
    """Return the part of a state that the kernel itself reads: names that begin with ``_`` are for others."""
    return {name: one for name, one in state.items() if not name.startswith("_")}


def rest(state: Tensors) -> dict[str, Any]:
    """Return the other part."""
    return {name: one for name, one in state.items() if name.startswith("_")}


Launch = Callable[[], None]
