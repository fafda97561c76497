# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled ahead of time: `load` one by name and row count, `seal` the process against compiling any.

import ds41_kernels
ds41_kernels.opened().load_all()   # of $TILELANG_CACHE_DIR, for the GPU at hand; an error names what is missing
ds41_kernels.seal()                # from here on TileLang compiles nothing in this process
ds41_kernels.counters()            # {"hits": ..., "misses": ...}
"""

from __future__ import annotations

from ds41_kernels.cache import KernelCache, Unit, load, opened
from ds41_kernels.sealing import KernelMissing, counters, seal

__all__ = ["KernelCache", "KernelMissing", "Unit", "counters", "load", "opened", "seal"]
