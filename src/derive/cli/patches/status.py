# SPDX-License-Identifier: Apache-2.0
"""Say what each patch still does: applies, is upstream already, is undone by a later one, conflicts, changes nothing.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, project_of, store_folder, table, wants_json
from derive.cli.running import options_of
from derive.errors import InputErrors
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

    from derive.patches.report import Report

EXAMPLES = """\
  derive patches status                                    every series, on the source that is locked
  derive patches status perftest --onto ../perftest        on another tree: what would conflict
  derive patches status perftest --outputs perftest        also built without each patch: is it dead?
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("upstream", nargs="?", metavar="UPSTREAM", help="one series (default: all)")
    parser.add_argument("patch", nargs="*", metavar="PATCH", help="with --outputs: only these patches")
    parser.add_argument("--onto", metavar="TREE", help="judge against a folder (DIR/), tree:DIGEST or a derivation")
    parser.add_argument(
        "--outputs", metavar="NAME", help="build this without each patch; one that changes nothing is dead"
    )
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="with --outputs: for which platform")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")


def run(args: argparse.Namespace) -> int:
    """Judge, and print the verdicts; the exit code is 1 when a patch does not simply apply, or changes nothing."""
    from derive.cli.progress import progress_for_stderr
    from derive.patches.dead import outputs_without
    from derive.patches.inspect import judged
    from derive.patches.origins import Shop

    _check(args)
    project = project_of(args)
    options = options_of(args)
    with LocalStore(store_folder(args)) as store:
        shop = Shop(project=project, store=store, options=options, progress=progress_for_stderr)
        reports = judged(shop, args.upstream, args.onto)
        if args.outputs is not None:
            found = outputs_without(shop, args.upstream, args.outputs, platform=args.platform, only=args.patch)
            without = dict(found)
            reports = [report.knowing(without) for report in reports]
    if wants_json(args):
        answer_record("patches-status", args.upstream or "", {"series": [one.document() for one in reports]})
    elif reports:
        answer("\n\n".join(map(_text, reports)))
    return int(any(report.findings for report in reports))


def _check(args: argparse.Namespace) -> None:
    if args.outputs is not None and (args.upstream is None or args.onto is not None):
        raise InputErrors.one("--outputs is for one series, on its own source", hint="name an UPSTREAM, without --onto")
    if args.outputs is None and (args.patch or args.platform is not None):
        raise InputErrors.one(
            "PATCH and --platform are for --outputs", hint="derive patches status judges whole series"
        )


def _text(report: Report) -> str:
    rows = report.rows()
    head = ("patch", "state", "", *(("without it",) if report.without else ()))
    parts = [report.title() + ("\n" + table([head, *rows]) if rows else ""), "\n".join(report.conflicts())]
    return "\n\n".join(part for part in parts if part)
