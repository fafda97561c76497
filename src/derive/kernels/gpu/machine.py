# SPDX-License-Identifier: Apache-2.0
"""What the run ran on: card, driver, and the versions of everything between them and the kernels.

Edge: reads the machine. Nothing names the machine itself.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_PACKAGES = ("torch", "tilelang", "apache-tvm-ffi", "torch-c-dlpack-ext", "tile-kernels", "triton", "numpy")
_QUERY = ("driver_version", "clocks.max.sm", "clocks.max.memory", "power.limit", "ecc.mode.current", "mig.mode.current")


def run() -> dict[str, Any]:
    """Return the facts; what cannot be found is null."""
    import torch  # type: ignore[import-not-found]

    found: dict[str, Any] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "cuda": torch.version.cuda,
        "packages": {name: _version(name) for name in _PACKAGES},
        "card": None,
        "problems": [],
        "ok": True,
    }
    if not torch.cuda.is_available():
        return found
    about = torch.cuda.get_device_properties(0)
    found["card"] = {
        "name": about.name,
        "capability": f"{about.major}.{about.minor}",
        "processors": about.multi_processor_count,
        "memory_bytes": about.total_memory,
        "l2_bytes": about.L2_cache_size,
        **_asked(),
    }
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _asked() -> dict[str, str]:
    """Return what nvidia-smi says; it is only asked."""
    words = ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(words, capture_output=True, check=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"machine: nvidia-smi: {error}\n")
        return {}
    return dict(zip(_QUERY, (value.strip() for value in done.stdout.split(",")), strict=False))
