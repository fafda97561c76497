# SPDX-License-Identifier: Apache-2.0
"""Arbitrary weights as a safetensors file: BF16 numbers from a hash of the tensor's name, so the same everywhere."""

from __future__ import annotations

import array
import hashlib
import json
import struct

ONE = b"\x80\x3f"
"""1.0 in BF16."""


def spread(name: str, count: int, scale: float) -> bytes:
    """Return so many BF16 numbers, evenly spread between -scale and scale."""
    drawn = array.array("h", hashlib.shake_128(name.encode()).digest(2 * count))
    # A float's upper half is its BF16, cut off and not rounded.
    return b"".join(struct.pack("<f", scale * number / 32768)[2:] for number in drawn)


def safetensors(tensors: dict[str, tuple[tuple[int, ...], bytes]]) -> bytes:
    """Return a file of BF16 tensors: name -> (shape, bytes)."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values())
