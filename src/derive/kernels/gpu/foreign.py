# SPDX-License-Identifier: Apache-2.0
"""A TileLang kernel that is in no cache, of nobody's package.

Edge: none; imports TileLang.
"""

from __future__ import annotations

from typing import Any

import tilelang.language as T  # type: ignore[import-not-found]  # noqa: N812 - TileLang's own habit


def never_built() -> Any:
    """Return a function that adds 41 to 137 numbers."""
    size, amount = 137, 41

    @T.prim_func  # type: ignore[untyped-decorator]
    def never_built_before(  # type: ignore[no-untyped-def]  # noqa: ANN202
        x: T.Tensor((size,), "float32"),  # type: ignore[valid-type]
        y: T.Tensor((size,), "float32"),  # type: ignore[valid-type]
    ):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(size):
                y[i] = x[i] + amount

    return never_built_before
