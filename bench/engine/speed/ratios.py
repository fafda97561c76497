# SPDX-License-Identifier: Apache-2.0
"""How many times as long one thing takes as another, with a bound that noise is unlikely to have made.

Core: no IO.

Each round gives one ratio of two times that were taken next to each other. Ratios multiply, so their logarithms are
taken to be normally distributed, and Student's t does the rest: the bound is one-sided, and with few rounds it is far
from the mean, as it should be.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

T_95 = (
    *(6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753),
    *(1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697),
)
"""The 95% quantile of Student's t for 1, 2, ... 30 degrees of freedom; for more, the last one errs downwards."""


def mean_ratio(longer: Sequence[int], shorter: Sequence[int]) -> float:
    """Return the geometric mean of the rounds' ratios."""
    return math.exp(statistics.fmean(_logarithms(longer, shorter)))


def lower_bound(longer: Sequence[int], shorter: Sequence[int]) -> float | None:
    """Return what the ratio exceeds with 95% confidence; None for a single round, which says nothing of noise."""
    logarithms = _logarithms(longer, shorter)
    count = len(logarithms)
    if count < 2:
        return None
    error = statistics.stdev(logarithms) / math.sqrt(count)
    return math.exp(statistics.fmean(logarithms) - T_95[min(count - 1, len(T_95)) - 1] * error)


def _logarithms(longer: Sequence[int], shorter: Sequence[int]) -> list[float]:
    return [math.log(one / other) for one, other in zip(longer, shorter, strict=True)]
