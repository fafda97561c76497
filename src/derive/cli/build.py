# SPDX-License-Identifier: Apache-2.0
"""Derive one derivation and print its output: a digest, and with --path the folder or file that holds it.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, project_of, store_folder, wants_json
from derive.cli.running import running_of, running_options
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from derive.build.check import Difference
    from derive.build.service import Options
    from derive.derivations.model import Derivation, Output

EXAMPLES = """\
  derive build perftest
  derive build perftest --platform linux/arm64 --path
  derive build perftest --check
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="a name declared in derivations/, or an image")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: the build platform")
    parser.add_argument("--path", action="store_true", help="print where the output lies in the store, read-only")
    parser.add_argument("--check", action="store_true", help="build every step again and compare each output")
    running_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan, as derive plan does, and do nothing")


def run(args: argparse.Namespace) -> int:
    """Derive, answer with the output."""
    if args.dry_run:
        from derive.cli.plan import run as print_plan

        return print_plan(args)
    from derive.build.deriving import derive_outputs
    from derive.build.images import preflight_check
    from derive.build.service import evaluate
    from derive.cli.progress import progress_for_stderr

    project = project_of(args)
    target = evaluate(project, args.name, args.platform)
    with LocalStore(store_folder(args)) as store:
        options = running_of(args)
        if args.check:
            preflight_check(target, store, options)
        outputs = derive_outputs(target, store, options, progress_for_stderr(), project.root, whole=args.check)
        differences = _check(target, store, options) if args.check else ()
        out = outputs["out"]
        path = _place(store, out, wanted=args.path)
        if wants_json(args):
            body = {name: str(output) for name, output in outputs.items()}
            place = None if path is None else path_text(path)
            found = {"differences": [one.document() for one in differences]} if args.check else {}
            record = {"derivation": str(target.id), "outputs": body, "path": place, **found}
            answer_record("build", args.name, record)
        elif not differences:
            answer(str(path) if args.path else str(out.digest))
    return 1 if differences else 0


def _check(target: Derivation, store: LocalStore, options: Options) -> tuple[Difference, ...]:
    """Build every step again, as `derive image --check` does, and tell what came out otherwise."""
    from derive.build.images import check_target
    from derive.cli.differences import tell_differences
    from derive.cli.progress import progress_for_stderr

    count, differences = check_target(target, store, options, progress_for_stderr())
    note(f"checked {count} steps: {len(differences) or 'no'} differences")
    tell_differences(differences, store)
    return differences


def _place(store: LocalStore, out: Output, *, wanted: bool) -> Path | None:
    """Return where an output lies; None where a tree would first be unpacked, nothing can be, and it is not wanted."""
    from derive.derivations.model import FlatOutput

    if isinstance(out, FlatOutput):
        return store.blob_path(out.digest)
    is_readable = not store.read_only or (store.root / "trees" / out.digest.hex).is_dir()
    return store.folder(out.digest) if wanted or is_readable else None
