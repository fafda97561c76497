# SPDX-License-Identifier: Apache-2.0
"""A plan as a document: whole numbers with their units, and decimals as text.

Core: no IO.
"""

from __future__ import annotations

from fractions import Fraction

from derive.canonical import Json
from derive.fabric.plan_fit import Fit, Held, to_ns
from derive.fabric.plan_links import Load
from derive.fabric.plan_model import Case, Plan, StepTime


def body(plan: Plan, planned: str | None = None) -> dict[str, Json]:
    """Return the document of a plan; ``planned`` says why a transport cannot be launched yet."""
    return {
        "transport": plan.transport,
        "planned": planned,
        "cabling": plan.site.cabling,
        "nodes": [node.name for node in plan.site.nodes],
        "algorithm": plan.algorithm,
        "size_bytes": plan.size_bytes,
        "limit_bytes": plan.limit_bytes,
        "beyond_limit": plan.beyond,
        "collectives": [_case(case, own=case is plan.own) for case in plan.cases],
        "fit": _fit(plan.own.fit),
        "held": [_held(one) for one in plan.held],
        "steps": [_step(one) for one in plan.steps],
    }


def _case(case: Case, *, own: bool) -> dict[str, Json]:
    return {
        "collective": case.collective,
        "algorithm": case.algorithm,
        "own": own,
        "steps": case.counts.steps,
        "hops": case.counts.hops,
        "links": [_load(load) for load in case.loads],
        "limiting": _load(case.busiest),
        "equally_busy": case.equal,
        "estimate_ns": case.time_ns,
        "series": case.fit.series,
        "basis": "interpolated" if case.is_interpolated else "taken over",
    }


def _load(load: Load) -> dict[str, Json]:
    return {
        "kind": load.kind,
        "ranks": list(load.ranks),
        "where": load.where,
        "bytes": load.size_bytes,
        "at_rate_ns": to_ns(load.time_s),
    }


def _fit(fit: Fit) -> dict[str, Json]:
    return {"series": fit.series, "latency_ns": to_ns(fit.latency_s), "share": {"decimal": decimal(fit.share, 4)}}


def _held(held: Held) -> dict[str, Json]:
    return {
        "size_bytes": held.size_bytes,
        "measured_ns": held.measured_ns,
        "estimate_ns": held.estimate_ns,
        "basis": held.basis,
        "error": {"decimal": decimal(held.error, 4)},
    }


def _step(step: StepTime) -> dict[str, Json]:
    return {
        "step": "prefill" if step.traffic.sequences is None else "decode",
        "sequences": step.traffic.sequences,
        "rows": step.traffic.rows,
        "size_bytes": step.traffic.size_bytes,
        "transport": step.transport,
        "all_reduces": step.traffic.all_reduces,
        "each_ns": step.case.time_ns,
        "basis": "interpolated" if step.case.is_interpolated else "taken over",
        "estimate_ns": step.time_ns,
    }


def decimal(value: Fraction, digits: int) -> str:
    """Write a number with so many digits behind the point."""
    return f"{float(value):.{digits}f}"
