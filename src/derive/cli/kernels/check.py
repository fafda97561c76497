# SPDX-License-Identifier: Apache-2.0
"""Compile units of kernels again and compare every byte; caches, keys and tests besides; exit 1 at a finding.

Edge: the store, standard streams. The plan comes first, on standard error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import (
    answer,
    answer_record,
    note,
    print_error,
    project_of,
    store_folder,
    table,
    wants_json,
)
from derive.cli.running import options_of
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from derive.kernels.checking import Checked, Finding
    from derive.kernels.selecting import Kernels, Target

EXAMPLES = """\
  derive kernels check                    every unit for every architecture, caches for both platforms, tests
  derive kernels check act_quant --gpu sm_121a
  derive kernels check --quick            the first unit of each kernel and architecture, quick tests
  derive kernels check --again            also what was found equal before
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "names", nargs="*", metavar="KERNEL", help="kernels, units, or the beginnings of units' names (default: all)"
    )
    parser.add_argument("--gpu", metavar="ARCHITECTURE", help="units for this GPU alone, such as sm_90a")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only one unit of each kernel and architecture, the quick tests, no caches",
    )
    parser.add_argument("--again", action="store_true", help="compile again also what was found equal before")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, and do nothing")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")


def run(args: argparse.Namespace) -> int:
    """Say what will be done, do it, and answer with what is wrong."""
    from derive.cli.progress import progress_for_stderr
    from derive.derivations.scope import load_scope
    from derive.kernels.checking import check
    from derive.kernels.planning import plan_check, plan_lines, tests_of
    from derive.kernels.selecting import kernels_of

    scope = load_scope(project_of(args))
    kernels = kernels_of(scope)
    targets = _meant(args, kernels)
    whole = not (args.names or args.gpu or args.quick)
    options = options_of(args)
    with LocalStore(store_folder(args), reading=args.dry_run) as store:
        plan = plan_check(
            targets,
            store,
            options,
            tests=tests_of(scope, quick=args.quick),
            caches=[(str(one), one.derivation) for one in kernels.caches] if whole else (),
            anew=args.again,
            to_run=not args.dry_run,
        )
        for row in plan_lines(plan):
            note(row)
        if args.dry_run:
            return 0
        checked = check(plan, store, options, progress_for_stderr())
    _answer(args, checked)
    return int(bool(checked.findings))


def _meant(args: argparse.Namespace, kernels: Kernels) -> Sequence[Target]:
    from derive.kernels.selecting import one_of_each

    found = kernels.select(args.names, args.gpu)
    if not args.quick:
        return found
    first = {unit.name for unit in one_of_each(target.unit for target in found)}
    return tuple(target for target in found if target.unit.name in first)


def _answer(args: argparse.Namespace, checked: Checked) -> None:
    from derive.words import count_text

    for name, size in checked.spills.items():
        note(f"spills  {name}: {size} bytes of each thread")
    for finding in checked.findings:
        _explain(finding)
    again, before = checked.compiled_again, checked.equal_before
    wrong = count_text(len(checked.findings), "finding") if checked.findings else "no findings"
    units = count_text(checked.units, "unit")
    note(f"checked {units}: {count_text(again, 'step')} done again, {before} found equal before, {wrong}")
    if wants_json(args):
        answer_record("kernels-check", " ".join(args.names), checked.document())
    elif checked.findings:
        answer(table([("finding", "of", "what"), *((one.kind, one.name, one.what) for one in checked.findings)]))


def _explain(finding: Finding) -> None:
    """Say more of a finding than its row in the table does, where there is more to say."""
    if finding.error is not None:
        print_error(finding.error)
    elif finding.detail:
        note(
            "\n".join([f"{finding.kind}  {finding.name}: {finding.what}", *(f"       {row}" for row in finding.detail)])
        )
