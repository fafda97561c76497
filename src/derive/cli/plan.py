# SPDX-License-Identifier: Apache-2.0
"""Say what deriving an image would fetch, build and reuse, each with its reason, what it will cost, and the disk.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, jobs_of, project_of, store_folder, table, wants_json
from derive.store.local import LocalStore
from derive.words import count_text, duration_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.build.plan import Plan
    from derive.build.prices import Forecast, Price
    from derive.derivations.model import Derivation

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
    parser.add_argument("--past", action="store_true", help="compare earlier runs with what was expected of them")


def run(args: argparse.Namespace) -> int:
    """Plan, and print the plan."""
    from derive.build.execute import free_bytes
    from derive.build.past import past_of
    from derive.build.prices import forecast
    from derive.build.service import plan_for

    target = _target(args)
    with LocalStore(store_folder(args), reading=True) as store:
        if getattr(args, "past", False):
            from derive.cli.past import print_past

            return print_past(args, target, store)
        plan = plan_for(target, store, to_run=False)
        free = free_bytes(store)
        found = forecast(plan, past_of(store.database, plan), jobs_of(args))
    if wants_json(args):
        answer_record("plan", target.name, {**plan.document(), "disk_free_bytes": free, "forecast": found.document()})
    else:
        answer(_text(plan, found, free, everything=getattr(args, "all", False)))
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


def _text(plan: Plan, found: Forecast, free: int, *, everything: bool) -> str:
    from derive.build.plan import Action
    from derive.build.prices import Fate

    prices = {price.step.derivation.id: price for price in found.prices}
    rows = []
    hidden = 0
    for step in plan.steps:
        quiet = step.action is not Action.BUILD or step.derivation.builder in ("unpack", "install-wheel")
        if quiet and not everything:
            hidden += 1
            continue
        price = prices.get(step.derivation.id)
        reason = step.reason + (_stays(price) if price is not None and price.fate is not Fate.RUNS else "")
        rows.append((step.action.value, step.derivation.builder, _seconds(price), step.derivation.name, reason))
    counts = ", ".join(f"{len(plan.of(action))} to {action.value}" for action in Action)
    lines = [table(rows, right=frozenset({2}))] if rows else []
    if hidden:
        lines.append(f"(not listed: {hidden} of fetch, unpack and reuse; --all lists them)")
    lines.append(f"{plan.target.name} ({plan.target.host}), derivation {plan.target.id.short}: {counts}")
    if not plan.is_done:
        lines.append(_expected(found))
    known = size_text(plan.fetch_bytes)
    if plan.unknown_sizes:
        known = f"at least {known} ({count_text(plan.unknown_sizes, 'size')} not known)"
    need = f"to fetch {known}, disk needed up to {size_text(plan.disk_bytes)}"
    lines.append(f"{need}, disk free {size_text(free)}" + ("  TOO LITTLE" if plan.disk_bytes > free else ""))
    return "\n".join(lines)


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
