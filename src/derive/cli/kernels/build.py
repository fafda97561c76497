# SPDX-License-Identifier: Apache-2.0
"""Compile units of kernels ahead of time; print the digest of each, or that of the cache when all are meant.

Edge: the store, standard streams.
"""

from __future__ import annotations

from dataclasses import replace
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
from derive.cli.options import executor_option
from derive.cli.running import options_of
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from derive.canonical import Json
    from derive.derivations.model import Output
    from derive.errors import DeriveError
    from derive.kernels.building import Work
    from derive.kernels.selecting import Cache

EXAMPLES = """\
  derive kernels build                                 everything; the digest of the cache
  derive kernels build act_quant --gpu sm_90a
  derive kernels build packed_head/head/tp4            units whose names begin so
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "names", nargs="*", metavar="KERNEL", help="kernels, units, or the beginnings of units' names (default: all)"
    )
    parser.add_argument("--gpu", metavar="ARCHITECTURE", help="units for this GPU alone, such as sm_90a")
    parser.add_argument(
        "--platform", choices=("linux/amd64", "linux/arm64"), help="of the host (default: the build platform)"
    )
    parser.add_argument("--keep-failed", action="store_true", help="keep a failed unit's folders for a look")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")
    executor_option(parser)


def run(args: argparse.Namespace) -> int:
    """Compile what is meant and not there yet; answer with what came out."""
    from derive.cli.progress import progress_for_stderr
    from derive.derivations.scope import load_scope
    from derive.kernels.building import plan_units, realise_caches, realise_units
    from derive.kernels.selecting import kernels_of
    from derive.words import count_text

    project = project_of(args)
    kernels = kernels_of(load_scope(project), (args.platform or project.settings.build_platform,))
    targets = kernels.select(args.names, args.gpu)
    options = replace(options_of(args), keep_failed=args.keep_failed, executor=args.executor)
    progress = progress_for_stderr()
    with LocalStore(store_folder(args)) as store:
        work = plan_units(targets, store, options.root)
        todo = len(work.to_do)
        note(f"{count_text(len(targets), 'unit')}: {len(targets) - todo} in the store, {todo} to build")
        failed = realise_units(work, store, options, progress)
        _tell(failed, todo)
        everything = not args.names and args.gpu is None
        caches = realise_caches(kernels.caches, store, options, progress) if everything else {}
        _answer(args, plan_units(targets, store, options.root, to_run=False), caches)
    return 0


def _tell(failed: Mapping[str, DeriveError], todo: int) -> None:
    """Say why each unit failed that did, and end there."""
    from derive.errors import BuildFailed

    for error in failed.values():
        print_error(error)
    if failed:
        raise BuildFailed(
            f"{len(failed)} of {todo} units failed",
            detail=[f"failed    {name}" for name in failed],
            hint="what is built stays so: mend these, and run the same command again",
        )


def _answer(args: argparse.Namespace, work: Work, caches: Mapping[Cache, Output]) -> None:
    rows: Sequence[tuple[str, str]] = [
        (str(output.digest), target.unit.name)
        for target in work.targets
        if (output := work.output(target.device)) is not None
    ]
    if wants_json(args):
        units: list[Json] = [
            {
                "unit": target.unit.name,
                "outputs": {
                    str(step.arguments.get("machine", "device")): str(work.output(step)) for step in target.steps
                },
            }
            for target in work.targets
        ]
        found: list[Json] = [{"name": o.name, "host": o.host, "output": str(out)} for o, out in caches.items()]
        answer_record("kernels-build", " ".join(args.names), {"units": units, "caches": found})
    elif len(caches) == 1:
        answer(next(str(output.digest) for output in caches.values()))
    elif caches:
        answer(table([(str(output.digest), str(one)) for one, output in caches.items()]))
    elif rows:
        answer(table(rows))
