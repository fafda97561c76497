# SPDX-License-Identifier: Apache-2.0
"""A plan as an operator reads it: what comes, what it ends, what it takes, and what stands against it.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from derive.deploy.consents import Consent, running_text
from derive.deploy.plan import NodePlan, Plan
from derive.deploy.preflight_finding import Finding
from derive.recipes.resolved import GuardPhase
from derive.words import binary_size, columns, count_text, duration_text, one_line, size_text

_RIGHT = frozenset({1, 3})
_NS = 1_000_000_000
_LONGEST = 4
"""How many of the steps are told that take longest."""
_SECONDS = 100
_WORDS = {"startup": "at start", "steady": "then"}


def plan_text(plan: Plan, width: int | None = None) -> str:
    """Return the plan's text; ``width`` is that of the terminal, None where nothing is to fit."""
    head = ("node", "rank", "host", "to move", "stops")
    parts = [
        [f"{'bring' if plan.only_ahead else 'deploy'} {plan.served.release} as {plan.served.shape} at {plan.site}"],
        columns(list(_what(plan)), width=width),
        columns([head, *(_row(plan, one) for one in plan.nodes)], _RIGHT, width),
        columns(list(_ahead(plan) if plan.only_ahead else _how(plan)), width=width),
        _problems(plan, width),
        [_last(plan)],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _what(plan: Plan) -> Iterator[tuple[str, str]]:
    served = plan.served
    yield "release", f"{served.release_digest}"
    yield "image", f"{served.image}  {plan.platform}"
    yield "shape bundle", f"{served.shape_bundle}"
    yield "launch bundle", f"{served.launch_bundle}"
    yield "site", f"{plan.site_digest}"
    if plan.situation is not None:
        yield "now", plan.situation.headline


def _row(plan: Plan, one: NodePlan) -> tuple[str, ...]:
    moved = "unknown" if one.move_bytes is None else size_text(one.move_bytes)
    stops = "; ".join(map(running_text, one.stops)) or ("nothing" if one.is_looked_at else "not looked at")
    if plan.only_ahead:
        stops = "nothing"
    return (one.name, str(one.rank), one.host, moved, stops)


def _ahead(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "brings", "image, launch files and guard, beside those in use; what serves goes on"
    yield from _notes(plan)


def _how(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "starts", f"{', '.join(plan.start_order[:-1])}, then {plan.start_order[-1]}"
    for index, phase in enumerate(plan.guards):
        yield "guards" if not index else "", _guard(phase)
    if not plan.guards:
        yield "guards", "none: the recipe has no [guard]"
    yield "time", _time(plan)
    yield "if it fails", _back(plan)
    for index, need in enumerate(plan.needed):
        given = "given" if need.consent in plan.given else "needed"
        yield "consents" if not index else "", f"{need.consent.value} ({given}): {'; '.join(need.because)}"
    yield from _notes(plan)


def _notes(plan: Plan) -> Iterator[tuple[str, str]]:
    for index, note in enumerate(_warnings(plan.findings)):
        yield "note" if not index else "", note


def _guard(phase: GuardPhase) -> str:
    waits = f", {phase.wait_seconds} s to appear" if phase.wait_seconds else ""
    said = f"kills below {binary_size(phase.floor_bytes)} available, looks every {phase.interval} s{waits}"
    return f"{_WORDS[phase.phase]}: {said}"


def _time(plan: Plan) -> str:
    if not plan.past:
        return "unknown: no deploy of this shape is recorded"
    longest = sorted(plan.expected.items(), key=lambda one: -one[1])[:_LONGEST]
    most = ", ".join(f"{step.value} {_seconds(seconds)}" for step, seconds in longest if seconds)
    before = f"as {count_text(plan.past, 'deploy')} before"
    return f"about {_seconds(sum(plan.expected.values()))}, {before}{f': {most}' if most else ''}"


def _seconds(seconds: int) -> str:
    return f"{seconds} s" if seconds < _SECONDS else duration_text(seconds * _NS)


def _back(plan: Plan) -> str:
    """Say what a deploy that fails goes back to."""
    if plan.former is not None:
        return f"back to {', '.join((plan.former.release, *plan.aside))}"
    if plan.aside:
        return f"back to what ran: {', '.join(plan.aside)}"
    if not all(one.is_looked_at for one in plan.nodes):
        return "back to what serves then"
    return "the service is stopped, as it is now: nothing runs that it could go back to"


def _warnings(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield what one should know, each thing once with its nodes."""
    by_text: dict[str, list[str]] = {}
    for one in findings:
        if one.severity == "warn":
            by_text.setdefault(one.message, []).append(one.node)
    for message, nodes in by_text.items():
        yield f"{', '.join(filter(None, nodes)) or 'all nodes'}: {message}"


def _problems(plan: Plan, width: int | None) -> list[str]:
    """Return each thing that stands against it in a line; what to do about it is told with the errors."""
    problems = plan.problems()
    consents = {need.consent.value for need in plan.needed}
    told = [(one.where, "not agreed to" if one.where in consents else one_line(one.message)) for one in problems]
    rows = [("-", f"{where}: {message}") for where, message in told]
    return [f"against it: {count_text(len(problems), 'thing')}", *columns(rows, width=width)] if rows else []


def _last(plan: Plan) -> str:
    options = sorted({one.consent.value for one in plan.needed} | {one.value for one in plan.given})
    if plan.only_ahead:
        options = ["--pull-only", *(one for one in options if one == Consent.EXPERIMENT.value)]
    command = plan.again.deploy(plan.served, options, adopts=not plan.only_ahead)
    already = "this runs already; " if plan.is_running and not plan.only_ahead else ""
    if not plan.may_apply:
        return f"{already}as it is, this plan cannot be applied"
    return f"{already}{'to start it again' if already else 'to do it'}: {command}"
