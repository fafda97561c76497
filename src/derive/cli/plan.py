# SPDX-License-Identifier: Apache-2.0
"""Say what deriving an image would fetch, build and reuse, each with its reason, and the disk it needs.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, project_of, store_folder, table, wants_json
from derive.store.local import LocalStore
from derive.words import size_text

if TYPE_CHECKING:
    import argparse

    from derive.build.plan import Plan

EXAMPLES = """\
  derive plan
  derive plan probe --platform linux/arm64
  derive plan perftest --all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="an image or a derivation (default: the default image)")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    parser.add_argument("--all", action="store_true", help="list every fetch, unpacking and reused step as well")


def run(args: argparse.Namespace) -> int:
    """Plan, and print the plan."""
    from derive.build.execute import free_bytes
    from derive.build.service import evaluate, plan_for

    project = project_of(args)
    target = evaluate(project, args.name or project.settings.default_image, args.platform)
    with LocalStore(store_folder(args)) as store:
        plan = plan_for(target, store)
        free = free_bytes(store)
    if wants_json(args):
        answer_record("plan", target.name, {**plan.document(), "disk_free_bytes": free})
    else:
        answer(_text(plan, free, everything=getattr(args, "all", False)))
    return 0


def _text(plan: Plan, free: int, *, everything: bool) -> str:
    from derive.build.plan import Action

    rows = []
    hidden = 0
    for step in plan.steps:
        quiet = step.action is not Action.BUILD or step.derivation.builder in ("unpack", "install-wheel")
        if quiet and not everything:
            hidden += 1
            continue
        rows.append((step.action.value, step.derivation.builder, step.derivation.name, step.reason))
    counts = ", ".join(f"{len(plan.of(action))} to {action.value}" for action in Action)
    lines = [table(rows)] if rows else []
    if hidden:
        lines.append(f"(not listed: {hidden} of fetch, unpack and reuse; --all lists them)")
    lines.append(f"{plan.target.name} ({plan.target.host}), derivation {plan.target.id.short}: {counts}")
    need = f"to fetch {size_text(plan.fetch_bytes)}, disk needed up to {size_text(plan.disk_bytes)}"
    lines.append(f"{need}, disk free {size_text(free)}" + ("  TOO LITTLE" if plan.disk_bytes > free else ""))
    return "\n".join(lines)
