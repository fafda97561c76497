# SPDX-License-Identifier: Apache-2.0
"""Carry a series over to another version of its source; conflicts are shown hunk by hunk, and nothing is lost.

Edge: the store, a work tree, the project's folder, standard streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import (
    answer,
    answer_record,
    note,
    project_of,
    project_root,
    store_folder,
    table,
    wants_json,
)
from derive.cli.running import options_of
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

    from derive.patches.publish import SeriesFiles
    from derive.patches.rebase import Rebased

EXAMPLES = """\
  derive patches rebase perftest                            onto the source that is locked now
  derive patches rebase perftest --onto perftest-26.tar.gz  onto an archive; a folder, tree: or a name will do too
  derive patches rebase nccl --onto git:v2.31.0-1           onto a tag, branch or commit of the upstream itself
  derive patches rebase perftest --continue                 after a conflict was resolved in the work tree
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("upstream", metavar="UPSTREAM", help="a folder of patches/")
    parser.add_argument(
        "--onto", metavar="TREE", help="a name, folder, archive, tree:DIGEST, git:REV (default: what is locked)"
    )
    parser.add_argument("--from", dest="fits", metavar="TREE", help="what the series fits (default: found)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--continue", dest="go_on", action="store_true", help="the conflict is resolved: go on")
    how.add_argument("--skip", action="store_true", help="leave the patch in conflict out of the series, and go on")
    how.add_argument("--abort", action="store_true", help="give up; nothing has changed")
    parser.add_argument("--tree", metavar="DIR", help="work tree, to which .rebase is added (default: as for edit)")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")


def run(args: argparse.Namespace) -> int:
    """Do one of the four; the exit code is 1 at a conflict."""
    from derive.patches.publish import read_series
    from derive.patches.rebase import give_up, go_on, rebase_tree
    from derive.patches.worktree import default_tree

    root = project_root(args)
    edit_tree = Path(args.tree).absolute() if args.tree else default_tree(root, args.upstream)
    if args.abort:
        note(f"given up; the work tree is kept for now: {give_up(args.upstream, rebase_tree(edit_tree))}")
        return 0
    series = read_series(root, args.upstream)
    if args.go_on or args.skip:
        done = go_on(series, rebase_tree(edit_tree), skip=args.skip)
    else:
        done = _begin(args, series, edit_tree)
    _show(args, done)
    return int(done.conflicted is not None)


def _begin(args: argparse.Namespace, series: SeriesFiles, edit_tree: Path) -> Rebased:
    from derive.cli.progress import progress_for_stderr
    from derive.patches.carry import carry_over
    from derive.patches.origins import Shop

    with LocalStore(store_folder(args)) as store:
        options = options_of(args)
        shop = Shop(project=project_of(args), store=store, options=options, progress=progress_for_stderr)
        return carry_over(shop, series, edit_tree, onto=args.onto, fits=args.fits)


def _show(args: argparse.Namespace, done: Rebased) -> None:
    rows = [(outcome, name) for name, outcome in done.outcomes]
    stopped = done.conflicted
    if wants_json(args):
        facts = {"done": [{"patch": name, "outcome": outcome} for name, outcome in done.outcomes]}
        conflict = None if stopped is None else {"patch": stopped.patch, "text": list(stopped.text)}
        answer_record("patches-rebase", args.upstream, {**facts, "left": list(done.left), "conflict": conflict})
    else:
        rows += [("conflict", stopped.patch)] if stopped is not None else []
        rows += [("to come", name) for name in done.left]
        text = "\n".join(["", *stopped.text]) if stopped is not None else ""
        answer(table(rows) + text or "the series is empty")
    if stopped is not None:
        note(f"resolve it in {done.root}, then: derive patches rebase {args.upstream} --continue")
    else:
        note(f"patches/{args.upstream} fits now; what git merged is worth a look: git diff patches/{args.upstream}")
