# SPDX-License-Identifier: Apache-2.0
"""The root in which kernels are compiled, derived into a store that is kept: its sources are gigabytes.

Edge: runs derive; reads the environment.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from support.cli import CHECKOUT, derive

STORE_VARIABLE = "DERIVE_TEST_KERNEL_STORE"


def kernel_store() -> Path:
    """Return the store that is kept for kernels: `.cache/kernels` of the checkout, unless the environment names one."""
    named = os.environ.get(STORE_VARIABLE)
    return Path(named) if named else CHECKOUT / ".cache" / "kernels"


@cache
def kernel_root() -> Path:
    """Return the folder of the root, derived if it is not there."""
    store = str(kernel_store())
    digest = derive("build", "kernel-root", "--store", store, timeout_s=1800).answer
    return Path(derive("store", "path", f"tree:{digest.removeprefix('sha256:')}", "--store", store).answer)
