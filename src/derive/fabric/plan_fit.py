# SPDX-License-Identifier: Apache-2.0
"""The model of time: a latency for each step, and the busiest link at a share of its rate.

Core: no IO. Imports pydantic, by way of the measured figures.

    time = latency x steps + (time of the busiest link at its rate) / share

Two numbers, fitted to two measured times: those of the smallest and of the greatest size of a series. What lies between
is predicted, and may be held against what was measured there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from derive.errors import InputErrors
from derive.fabric.abstract import abstract_site
from derive.fabric.collectives import schedule
from derive.fabric.plan_count import Counts, carry
from derive.fabric.plan_links import Load, Rates, cable_ways, limiting, loads
from derive.fabric.plan_measured import FILE, Measured, Series

Basis: TypeAlias = Literal["fitted", "predicted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Latency of a step in seconds, and the share of its rate that the busiest link reaches."""

    series: str
    latency_s: Fraction
    share: Fraction

    def time_s(self, counts: Counts, busiest: Load) -> Fraction:
        """Return the estimated time of a collective, in seconds."""
        return counts.steps * self.latency_s + busiest.time_s / self.share


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A measured time beside the model's; ``error`` is (estimate - measured) / measured."""

    size_bytes: int
    measured_ns: int
    estimate_ns: int
    basis: Basis

    @property
    def error(self) -> Fraction:
        """Return by what part of the measured time the estimate is above it."""
        return Fraction(self.estimate_ns - self.measured_ns, self.measured_ns)


def fit(measured: Measured, name: str) -> Fit:
    """Return the two numbers of a series.

    Raises:
        InputErrors: when its times cannot be of this form: less time for more bytes, or faster than links are.
    """
    series = measured.series[name]
    steps, last = _busy(series, series.points[-1].bytes, measured.rates)
    greatest_s = Fraction(series.points[-1].time_ns, 10**9)
    if series.latency_of is not None:
        latency = fit(measured, series.latency_of).latency_s
        share = _share(last, greatest_s - steps * latency, name)
    else:
        _, first = _busy(series, series.points[0].bytes, measured.rates)
        smallest_s = Fraction(series.points[0].time_ns, 10**9)
        share = _share(last - first, greatest_s - smallest_s, name)
        latency = (smallest_s - first / share) / steps
    if latency < 0:
        raise _not_of_this_form(name, "its smallest size takes less than its bytes do")
    return Fit(series=name, latency_s=latency, share=share)


def held_against(measured: Measured, name: str) -> Iterator[Held]:
    """Yield each measured time of a series beside the model's."""
    series = measured.series[name]
    found = fit(measured, name)
    fitted = {series.points[-1].bytes}
    if series.latency_of is None:
        fitted.add(series.points[0].bytes)
    for point in series.points:
        steps, busy = _busy(series, point.bytes, measured.rates)
        time_ns = to_ns(steps * found.latency_s + busy / found.share)
        basis: Basis = "fitted" if point.bytes in fitted else "predicted"
        yield Held(size_bytes=point.bytes, measured_ns=point.time_ns, estimate_ns=time_ns, basis=basis)


def to_ns(time_s: Fraction) -> int:
    """Return whole nanoseconds."""
    return round(time_s * 10**9)


def _share(busy_s: Fraction, time_s: Fraction, name: str) -> Fraction:
    if time_s <= 0:
        raise _not_of_this_form(name, "more bytes take no more time")
    if busy_s > time_s:
        raise _not_of_this_form(name, "it is faster than the links are")
    return busy_s / time_s


def _not_of_this_form(name: str, why: str) -> InputErrors:
    return InputErrors.one(f"these times cannot be modelled: {why}", where=f"{FILE}: series.{name}.points")


def _busy(series: Series, size: int, rates: Rates) -> tuple[int, Fraction]:
    """Return the steps of a series' collective, and how long its busiest link would need at its rate."""
    site = abstract_site(series.cabling)
    plan = schedule(series.collective, series.algorithm, len(site.nodes))
    counts = carry(plan, size, cable_ways(site))
    return counts.steps, limiting(loads(site, counts, rates))[0].time_s
