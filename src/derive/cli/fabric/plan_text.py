# SPDX-License-Identifier: Apache-2.0
"""A plan as tables for people.

Edge: none of its own; it stands beside the command that prints it.
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.cli.console import table
from derive.fabric.collectives import WORDS
from derive.fabric.plan_answer import decimal
from derive.fabric.plan_fit import to_ns
from derive.fabric.plan_links import Kind, Load
from derive.fabric.plan_model import Case, Plan
from derive.words import count_text

_KINDS: dict[Kind, str] = {"cable": "cable", "root": "PCIe root"}


def plan_text(plan: Plan, planned: str | None = None) -> str:
    """Return a plan in words and tables; ``planned`` says why the transport cannot be launched yet."""
    parts = ["\n".join(_head(plan, planned)), _cases(plan), "\n".join(_limit(plan)), _links(plan), _held(plan)]
    if plan.steps:
        parts.append(_steps(plan))
    return "\n\n".join(parts)


def _head(plan: Plan, planned: str | None) -> Iterator[str]:
    yield f"{plan.transport} on the {plan.site.cabling} of {plan.site.name}, {plan.size_bytes} bytes"
    yield f"{plan.algorithm}: {WORDS[plan.algorithm]}"
    if plan.limit_bytes is not None:
        yield f"what is larger than {plan.limit_bytes} bytes goes by {plan.beyond}"
    if planned is not None:
        yield f"only planned: {planned}"


def _cases(plan: Plan) -> str:
    head = ("", "collective", "algorithm", "steps", "cable", "PCIe root", "limited by", "estimate")
    rows = [
        (
            "*" if case.algorithm == plan.algorithm else "",
            case.collective,
            case.algorithm,
            str(case.counts.steps),
            str(_most(case, "cable")),
            str(_most(case, "root")),
            _KINDS[case.busiest.kind],
            _case_time(case),
        )
        for case in plan.cases
    ]
    return (
        f"{table([head, *rows], right=frozenset({3, 4, 5, 7}))}\n"
        "bytes one way over the busiest cable and PCIe root; * the transport's own\n"
        "~ with latency and share that were measured of something else, or of other sizes"
    )


def _most(case: Case, kind: Kind) -> int:
    return max(load.size_bytes for load in case.loads if load.kind == kind)


def _case_time(case: Case) -> str:
    return f"{'' if case.is_interpolated else '~'}{time_text(case.time_ns)}"


def _limit(plan: Plan) -> Iterator[str]:
    busiest, fit = plan.own.busiest, plan.own.fit
    others = f", and over {count_text(plan.own.equal, 'other link')} as busy" if plan.own.equal else ""
    yield f"the all-reduce is limited by {_where(plan, busiest)}"
    yield f"  {busiest.size_bytes} bytes there{others}"
    yield (
        f"  {time_text(to_ns(busiest.time_s))} at its rate, of which {decimal(100 * fit.share, 1)} % is reached; "
        f"{count_text(plan.own.counts.steps, 'step')} of {time_text(to_ns(fit.latency_s))}"
    )


def _where(plan: Plan, load: Load) -> str:
    if load.kind == "cable":
        return f"cable {load.where}"
    root, _, way = load.where.rpartition(" ")
    return f"PCIe root {root} of {plan.site.nodes[load.ranks[0]].name}, {way}"


def _links(plan: Plan) -> str:
    """Return what the transport's all-reduce moves over every link: to and fro on cables, out of and into machines."""
    names = [node.name for node in plan.site.nodes]
    cables = [load for load in plan.own.loads if load.kind == "cable"]
    roots = [load for load in plan.own.loads if load.kind == "root"]
    rows = [("bytes of the all-reduce over", "to, out of", "from, into")]
    for to, fro in zip(cables[::2], cables[1::2], strict=True):
        rows.append((f"cable {' - '.join(names[rank] for rank in to.ranks)}", str(to.size_bytes), str(fro.size_bytes)))
    for out, into in zip(roots[::2], roots[1::2], strict=True):
        name = f"PCIe root {out.where.removesuffix(' out')} of {names[out.ranks[0]]}"
        rows.append((name, str(out.size_bytes), str(into.size_bytes)))
    return table(rows, right=frozenset({1, 2}))


def _held(plan: Plan) -> str:
    series = plan.series
    head = ("bytes", "measured", "model", "error")
    rows = [
        (
            str(one.size_bytes),
            time_text(one.measured_ns),
            time_text(one.estimate_ns),
            "fitted" if one.basis == "fitted" else f"{float(100 * one.error):+.1f} %",
        )
        for one in plan.held
    ]
    lines = [
        f"held against: {series.title}, {series.collective} on a {series.cabling}",
        f"  {series.source}",
        *(f"  {text}" for text in _reservations(plan)),
        table([head, *rows], right=frozenset({0, 1, 2, 3})),
    ]
    return "\n".join(lines)


def _reservations(plan: Plan) -> Iterator[str]:
    if plan.series.latency_of is not None:
        yield f"latency of a step from the series {plan.series.latency_of}"
    if plan.series.note is not None:
        yield plan.series.note
    if not plan.own.is_measured:
        yield f"not measured for {plan.transport}, whose times above are taken over from it"


def _steps(plan: Plan) -> str:
    head = ("step", "rows", "bytes", "by", "each", "times", "together")
    rows = [
        (
            "prefill" if one.traffic.sequences is None else f"decode of {one.traffic.sequences}",
            str(one.traffic.rows),
            str(one.traffic.size_bytes),
            one.transport,
            _case_time(one.case),
            str(one.traffic.all_reduces),
            time_text(one.time_ns),
        )
        for one in plan.steps
    ]
    return (
        f"all-reduces of a step of the shape, estimated\n{table([head, *rows], right=frozenset({1, 2, 4, 5, 6}))}\n"
        "decode of so many sequences, each with its drafts; prefill of the whole budget\n"
        "embedding, drafter and logits are left out, and nothing overlaps with computing"
    )


def time_text(time_ns: int) -> str:
    """Write a short time in microseconds, a longer one in milliseconds."""
    return f"{time_ns / 1000:.1f} us" if time_ns < 10**6 else f"{time_ns / 10**6:.2f} ms"
