# SPDX-License-Identifier: Apache-2.0
"""Make a series again from the commits of its work tree: edited, reordered, squashed, split, dropped.

Edge: the work tree, the project's folder, standard streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, table, wants_json
from derive.words import count_text

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive patches refresh perftest             the commits of the work tree become the series
  derive patches refresh perftest 0001        what is not committed goes into that patch first
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("upstream", metavar="UPSTREAM", help="a folder of patches/")
    parser.add_argument("patch", nargs="?", metavar="PATCH", help="the patch that uncommitted changes belong to")
    parser.add_argument("--tree", metavar="DIR", help="the work tree (default: .cache/patches/UPSTREAM)")


def run(args: argparse.Namespace) -> int:
    """Write the series, and say what became of each patch."""
    from derive.patches.publish import read_series
    from derive.patches.refresh import refresh
    from derive.patches.worktree import default_tree

    root = project_root(args)
    tree = Path(args.tree).absolute() if args.tree else default_tree(root, args.upstream)
    done = refresh(read_series(root, args.upstream), tree, fold=args.patch)
    fates = {"changed": done.changed, "new": done.new, "dropped": done.dropped, "kept": done.kept}
    if wants_json(args):
        lists = {fate: list(names) for fate, names in fates.items()}
        answer_record(
            "patches-refresh", args.upstream, {**lists, "reordered": done.moved, "waiting": list(done.waiting)}
        )
    else:
        rows = [(fate, name) for fate, names in fates.items() if fate != "kept" for name in names]
        if done.moved:
            rows.append(("reordered", f"patches/{args.upstream}/series"))
        answer(table(rows) if rows else "nothing changed")
    note(f"{count_text(len(done.kept), 'patch file', 'patch files')} unchanged")
    return 0
