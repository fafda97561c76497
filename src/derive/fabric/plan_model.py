# SPDX-License-Identifier: Apache-2.0
"""Plan collectives on a site: what each algorithm moves over which link, which link limits, and how long it may take.

Core: no IO. Imports pydantic, by way of the measured figures.

Bytes are counted; times are estimates, and each says what it rests on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.errors import InputErrors
from derive.fabric.collectives import COLLECTIVES, Algorithm, Collective, schedule
from derive.fabric.plan_count import Counts, carry
from derive.fabric.plan_fit import Fit, Held, fit, held_against, to_ns
from derive.fabric.plan_links import Load, cable_ways, limiting, loads
from derive.fabric.plan_measured import Measured, Series, absent
from derive.fabric.plan_possible import possible, why_not
from derive.fabric.plan_traffic import Traffic
from derive.fabric.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One collective by one algorithm for one size.

    ``equal`` is how many other links are busy for as long as ``busiest``. ``is_measured`` says whether the fit is of
    this very collective, algorithm and cabling; otherwise latency and share are taken over from what was measured.
    ``is_within`` says whether the size lies between measured ones.
    """

    collective: Collective
    algorithm: Algorithm
    size_bytes: int
    counts: Counts
    loads: tuple[Load, ...]
    busiest: Load
    equal: int
    fit: Fit
    is_measured: bool
    is_within: bool
    time_ns: int

    @property
    def is_interpolated(self) -> bool:
        """Say whether the time lies between times that were measured of the same."""
        return self.is_measured and self.is_within


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """The all-reduces of one kind of step: by which transport they go, one of them, and all together."""

    traffic: Traffic
    transport: str
    case: Case

    @property
    def time_ns(self) -> int:
        """Return the estimated time of all of them, one after the other."""
        return self.traffic.all_reduces * self.case.time_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What was asked for; ``cases`` by all algorithms that the cabling carries, ``own`` the transport's all-reduce."""

    site: Site
    transport: str
    algorithm: Algorithm
    size_bytes: int
    limit_bytes: int | None
    beyond: str | None
    cases: tuple[Case, ...]
    own: Case
    series: Series
    held: tuple[Held, ...]
    steps: tuple[StepTime, ...]


def plan(
    measured: Measured, site: Site, transport: str, *, size: int | None = None, steps: tuple[Traffic, ...] = ()
) -> Plan:
    """Plan a transport on a site; without a size, that of the greatest decode step, or else the greatest measured one.

    Raises:
        InputErrors: when no transport has the name, or the site's cables do not carry it.
    """
    if transport not in measured.transports:
        raise InputErrors([absent("--transport", transport, measured.transports, "transport")])
    decl = measured.transports[transport]
    require_possible(measured, site, transport)
    if size is None:
        decode = [one.size_bytes for one in steps if one.sequences is not None]
        size = max(decode, default=measured.series[decl.series].points[-1].bytes)
    fits = {name: fit(measured, name) for name in measured.series}
    cases = tuple(
        case_of(measured, site, collective, algorithm, size, fits[_series(measured, transport, algorithm)])
        for collective in COLLECTIVES
        for algorithm in possible(site)
    )
    timed = tuple(_step_time(measured, site, transport, one, fits) for one in steps)
    return Plan(
        site=site,
        transport=transport,
        algorithm=decl.algorithm,
        size_bytes=size,
        limit_bytes=decl.limit_bytes,
        beyond=decl.beyond,
        cases=cases,
        own=next(case for case in cases if (case.collective, case.algorithm) == ("all-reduce", decl.algorithm)),
        series=measured.series[decl.series],
        held=tuple(held_against(measured, decl.series)),
        steps=timed,
    )


def require_possible(measured: Measured, site: Site, transport: str) -> None:
    """Raise InputErrors, with the reason, when a site's cables do not carry a transport that has its name there."""
    reason = why_not(measured.transports[transport].algorithm, site)
    if reason is None:
        return
    carried = sorted(name for name, one in measured.transports.items() if why_not(one.algorithm, site) is None)
    raise InputErrors.one(
        f"{transport} cannot be on a {site.cabling}",
        where="--transport",
        detail=(reason,),
        hint=f"this cabling carries {', '.join(carried)}" if carried else "look at it: derive fabric show",
    )


def case_of(
    measured: Measured, site: Site, collective: Collective, algorithm: Algorithm, size: int, found: Fit
) -> Case:
    """Return one collective by one algorithm, timed by a fit."""
    counts = carry(schedule(collective, algorithm, len(site.nodes)), size, cable_ways(site))
    carried = loads(site, counts, measured.rates)
    busiest, equal = limiting(carried)
    source = measured.series[found.series]
    return Case(
        collective=collective,
        algorithm=algorithm,
        size_bytes=size,
        counts=counts,
        loads=carried,
        busiest=busiest,
        equal=equal,
        fit=found,
        is_measured=(source.collective, source.algorithm, source.cabling) == (collective, algorithm, site.cabling),
        is_within=source.points[0].bytes <= size <= source.points[-1].bytes,
        time_ns=to_ns(found.time_s(counts, busiest)),
    )


def _series(measured: Measured, transport: str, algorithm: Algorithm) -> str:
    own = measured.transports[transport]
    return own.series if own.algorithm == algorithm else measured.algorithms[algorithm]


def _step_time(measured: Measured, site: Site, transport: str, traffic: Traffic, fits: Mapping[str, Fit]) -> StepTime:
    decl = measured.transports[transport]
    if decl.beyond is not None and decl.limit_bytes is not None and traffic.size_bytes > decl.limit_bytes:
        transport, decl = decl.beyond, measured.transports[decl.beyond]
        require_possible(measured, site, transport)
    case = case_of(measured, site, "all-reduce", decl.algorithm, traffic.size_bytes, fits[decl.series])
    return StepTime(traffic=traffic, transport=transport, case=case)
