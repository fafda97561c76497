# SPDX-License-Identifier: Apache-2.0
"""What the compile of a unit writes of itself.

Core: no IO.
"""

from __future__ import annotations

from derive.canonical import Json

RESOURCES: dict[str, Json] = {
    "registers": 168,
    "static-shared-memory-bytes": 16,
    "spill-store-bytes": 8,
    "spill-load-bytes": 24,
    "stack-bytes": 32,
    "sass-sha256": "ab" * 32,
    "instructions": 344,
    "matrix-instructions": {"HMMA.16816.F32.BF16": 32},
    "compiler": {"nvcc": "13.0.88", "tilelang": "0.1.15"},
}
LAUNCH: dict[str, Json] = {
    "version": "0.1.15",
    "keys": {"aarch64": "b" * 64, "x86_64": "a" * 64},
    "binary-key": "c" * 64,
    "entry": "dense_kernel",
    "grid": [1, "(rows + 63) // 64", 1],
    "block": [128, 1, 1],
    "dynamic-shared-memory": 33792,
}
