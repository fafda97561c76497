# SPDX-License-Identifier: Apache-2.0
"""Say what deriving an image would fetch, build and reuse, each with its reason, what it will cost, and the disk.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import (
    answer,
    answer_record,
    jobs_of,
    note,
    project_of,
    project_root,
    store_folder,
    table,
    wants_json,
)
from derive.cli.options import no_cache_option, on_option
from derive.store.local import LocalStore
from derive.words import count_text, duration_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.build.plan import Plan
    from derive.build.prices import Forecast, Price
    from derive.canonical import Json
    from derive.derivations.model import Derivation
    from derive.schedule.choose import Chosen
    from derive.schedule.model import Timetable

EXAMPLES = """\
  derive plan
  derive plan probe --platform linux/arm64
  derive plan perftest --all
  derive plan release:r1           what deriving a release again would cost here
  derive plan probe --past         what earlier runs were expected to take, and took
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="an image or a derivation (default: the default image)")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    parser.add_argument("--all", action="store_true", help="list every fetch, unpacking and reused step as well")
    on_option(parser)
    no_cache_option(parser)
    parser.add_argument("--past", action="store_true", help="compare earlier runs with what was expected of them")


def run(args: argparse.Namespace) -> int:
    """Plan, and print the plan."""
    from derive.build.execute import free_bytes
    from derive.build.past import past_of
    from derive.build.prices import forecast

    target = _target(args)
    with LocalStore(store_folder(args), reading=True) as store:
        if getattr(args, "past", False):
            from derive.cli.past import print_past

            return print_past(args, target, store)
        plan = _plan(args, target, store)
        free = free_bytes(store)
        found = forecast(plan, past_of(store.database, plan), jobs_of(args))
        chosen = _chosen(args)
        times = None if chosen is None else _timetable(args, plan, found, store, chosen)
    if wants_json(args):
        body: dict[str, Json] = {**plan.document(), "disk_free_bytes": free, "forecast": found.document()}
        if chosen is not None and times is not None:
            not_asked: dict[str, Json] = {kind: list(names) for kind, names in chosen.not_asked.items()}
            body["schedule"] = {**times.document(), "not_asked": not_asked}
        answer_record("plan", target.name, body)
    else:
        if chosen is not None and times is not None and times.ran:
            _tell_not_asked(chosen)
        answer(_text(plan, found, free, times, everything=getattr(args, "all", False)))
    return 0


def _target(args: argparse.Namespace) -> Derivation:
    """Return what is planned: what the project makes of a name now, or a release's image as its content evaluates."""
    from derive.build.service import evaluate

    if args.name is not None and args.name.startswith("release:"):
        from derive.cli.console import project_root
        from derive.operands import released
        from derive.why.released import evaluated

        return evaluated(released(args.name, args.platform), project_root(args), store_folder(args))
    project = project_of(args)
    return evaluate(project, project.settings.default_image if args.name is None else args.name, args.platform)


def _plan(args: argparse.Namespace, target: Derivation, store: LocalStore) -> Plan:
    """Plan with what is known of the caches; a release is planned as it was made, with nothing from elsewhere."""
    if (args.name or "").startswith("release:") or getattr(args, "check", False):
        from derive.build.service import plan_for

        return plan_for(target, store, project_root(args), to_run=False)
    from derive.build.deriving import planned

    return planned(target, store, project_root(args), no_cache=args.no_cache)


def _chosen(args: argparse.Namespace) -> Chosen | None:
    """Return the executors that steps would be placed on, and ask none of them; None where everything runs here."""
    import os

    from derive.schedule.choose import choose

    return choose(getattr(args, "on", ()), os.environ, executor=getattr(args, "executor", ""), offline=True)


def _timetable(args: argparse.Namespace, plan: Plan, found: Forecast, store: LocalStore, chosen: Chosen) -> Timetable:
    """Return who would run what and when."""
    from derive.schedule.choose import timetable

    return timetable(plan, found, chosen, store, jobs_of(args))


def _tell_not_asked(chosen: Chosen) -> None:
    """Say of whom a plan takes for granted that they are there, and build."""
    said = [f"{kind} {', '.join(names)}" for kind, names in chosen.not_asked.items() if names]
    if said:
        note(f"planned as if all were there and idle; not asked: {'; '.join(said)} (derive executors asks)")


def _text(plan: Plan, found: Forecast, free: int, times: Timetable | None, *, everything: bool) -> str:
    from derive.build.plan import Action
    from derive.build.prices import Fate

    ran = {} if times is None else times.by_key()
    prices = {price.step.derivation.id: price for price in found.prices}
    rows = []
    hidden = 0
    for step in plan.steps:
        is_quiet = step.action in (Action.FETCH, Action.REUSE)
        quiet = is_quiet or step.derivation.builder in ("unpack", "install-wheel")
        if quiet and not everything:
            hidden += 1
            continue
        price = prices.get(step.derivation.id)
        reason = step.reason + (_stays(price) if price is not None and price.fate is not Fate.RUNS else "")
        cells = [step.action.value, step.derivation.builder, _seconds(price)]
        if times is not None:
            one = ran.get(step.derivation.id.hex)
            ends = "?" if found.expected_ns is None or one is None else duration_text(one.ended_ns)
            cells += ["", ""] if one is None else [times.workers[one.worker].name, ends]
        rows.append((*cells, step.derivation.name, reason))
    said = [action for action in Action if action is not Action.SUBSTITUTE or plan.of(action)]
    counts = ", ".join(f"{len(plan.of(action))} to {action.value}" for action in said)
    if rows and times is not None:
        rows.insert(0, ("", "", "takes", "where", "ends", "", ""))
    lines = [table(rows, right=frozenset({2} if times is None else {2, 4}))] if rows else []
    if hidden:
        lines.append(f"(not listed: {hidden} of fetch, unpack and reuse; --all lists them)")
    lines.append(f"{plan.target.name} ({plan.target.host}), derivation {plan.target.id.short}: {counts}")
    if not plan.is_done:
        lines.append(_expected(found))
    if times is not None and times.ran and found.expected_ns is not None:
        lines.append(_scheduled(times))
    known = size_text(plan.fetch_bytes)
    if plan.unknown_sizes:
        known = f"at least {known} ({count_text(plan.unknown_sizes, 'size')} not known)"
    if plan.of(Action.SUBSTITUTE):
        known += f", from caches up to {size_text(plan.substitute_bytes)}"
    need = f"to fetch {known}, disk needed up to {size_text(plan.disk_bytes)}"
    lines.append(f"{need}, disk free {size_text(free)}" + ("  TOO LITTLE" if plan.disk_bytes > free else ""))
    return "\n".join(lines)


def _scheduled(times: Timetable) -> str:
    """Say what becomes of it on all executors together."""
    from derive.schedule.model import NETWORK

    moved = f"; to move {size_text(times.moved_bytes)}" if times.moved_bytes else ""
    names = [worker.name for worker in times.workers if worker.name != NETWORK]
    return f"expected {duration_text(times.makespan_ns)} on {', '.join(names)}{moved}"


def _seconds(price: Price | None) -> str:
    if price is None:
        return ""
    return "?" if price.expected_ns is None else duration_text(price.expected_ns)


def _stays(price: Price) -> str:
    from derive.build.prices import Fate

    if price.fate is Fate.LABEL_ONLY:
        return "; if they come out as before, only its label changes"
    kept = price.previous.get("out")
    return "; not run if they come out as before" + (f" ({kept.digest.short} stays)" if kept is not None else "")


def _expected(found: Forecast) -> str:
    if found.expected_ns is None or found.least_ns is None:
        return "expected time: not known, nothing like it was run in this store"
    text = f"expected {duration_text(found.expected_ns)} with {count_text(found.jobs, 'job')}"
    if found.least_ns < found.expected_ns:
        text += f", or {duration_text(found.least_ns)} where nothing else comes out otherwise"
    if found.unknown:
        text += f", and {count_text(found.unknown, 'step')} never seen"
    return f"{text}; to write {size_text(found.written_bytes or 0)}"
