# SPDX-License-Identifier: Apache-2.0
"""A kernel that nothing can compile, and declarations of it, for tests of what surrounds the compiler.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping

KERNEL = """\
summary = "rows times a factor"
source = "nobody's"
architectures = ["sm_90a", "sm_121a"]

[formats]
input = "FP32, row-major"

[programs.scale]
doc = "times two"
pass-configs = { "tl.disable_warp_specialized" = true }

[programs.scale.shapes.wide]
doc = "a wide layer"
tensor-parallel = [3, 4]
arguments = { columns = 512 }

[programs.scale.shapes.narrow]
doc = "a narrow layer"
arguments = { columns = 64 }

[programs.scale.tiles.few]
rows = [1, 64]
arguments = { threads = 64 }

[programs.scale.tiles.many]
rows = [65]
arguments = { threads = 256 }
architectures = ["sm_90a"]

[programs.scale.tiles.many-blackwell]
rows = [65]
arguments = { threads = 128 }
architectures = ["sm_121a"]
"""

DERIVATIONS = """\
[cache]
builder = "kernels"
root = "root"
python = "3.13"

[cache.gpus]
"linux/amd64" = ["sm_90a", "sm_121a"]
"linux/arm64" = ["sm_121a"]

[sources]
builder = "kernel-sources"
exclude = ["*/tests/*"]
"""

KERNEL_FILES: Mapping[str, str] = {
    "derivations/k.toml": DERIVATIONS,
    "kernels/scale/kernel.toml": KERNEL,
    "kernels/scale/kernel.py": "def scale(columns, threads): ...\n",
    "kernels/scale/tests/test_scale.py": "assert True\n",
    "kernels/shared/init.py": "VERSION = 1\n",
    "kernels/README.md": "What lies beside the kernels is none.\n",
}
"""The files of a sound kernel in a sound project, beside the others."""
