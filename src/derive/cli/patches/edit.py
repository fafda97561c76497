# SPDX-License-Identifier: Apache-2.0
"""Open a series in a work tree, each patch a commit, to be changed with plain git; the answer is the folder.

Edge: the store, the work tree, standard streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, project_of, store_folder, wants_json
from derive.cli.running import options_of
from derive.store.local import LocalStore
from derive.words import count_text

if TYPE_CHECKING:
    import argparse

    from derive.patches.edit import Opened

EXAMPLES = """\
  cd "$(derive patches edit perftest)"        all patches are checked out
  derive patches edit perftest 0001           as it is after that patch; the rest waits
  derive patches edit perftest                bring the rest up again
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("upstream", metavar="UPSTREAM", help="a folder of patches/")
    parser.add_argument(
        "patch", nargs="?", metavar="PATCH", help="stop after this one: file name, number or part of it"
    )
    parser.add_argument("--tree", metavar="DIR", help="the work tree (default: .cache/patches/UPSTREAM)")
    parser.add_argument(
        "--source", metavar="TREE", help="instead of the declared source: a name, folder, archive, tree"
    )
    parser.add_argument("--offline", action="store_true", help="fetch nothing")


def run(args: argparse.Namespace) -> int:
    """Open it, and say where it is; the exit code is 1 when a patch is in conflict."""
    from derive.cli.console import project_root
    from derive.cli.progress import progress_for_stderr
    from derive.patches.edit import edit
    from derive.patches.origins import Shop
    from derive.patches.publish import read_series
    from derive.patches.worktree import default_tree

    root = project_root(args)
    series = read_series(root, args.upstream)
    tree = Path(args.tree).absolute() if args.tree else default_tree(root, args.upstream)
    with LocalStore(store_folder(args)) as store:
        options = options_of(args)
        shop = Shop(project=project_of(args), store=store, options=options, progress=progress_for_stderr)
        opened = edit(shop, series, tree, patch=args.patch, source=args.source)
    if wants_json(args):
        facts = {"applied": list(opened.applied), "waiting": list(opened.waiting), "path": path_text(opened.root)}
        conflict = opened.conflicted.patch if opened.conflicted else None
        answer_record("patches-edit", args.upstream, {**facts, "conflict": conflict})
    else:
        answer(str(opened.root))
    _explain(args.upstream, opened)
    return int(opened.conflicted is not None)


def _explain(upstream: str, opened: Opened) -> None:
    last = f", the last is {opened.applied[-1]}" if opened.applied else ""
    waiting = f"; {count_text(len(opened.waiting), 'patch', 'patches')} above it to come" if opened.waiting else ""
    note(f"{count_text(len(opened.applied), 'commit')} above the source{last}{waiting}")
    if opened.conflicted is not None:
        for row in opened.conflicted.text:
            note(row)
        note(f"{opened.conflicted.patch} is in conflict: resolve it, git add, git cherry-pick --continue,")
        note(f"then bring the rest up: derive patches edit {upstream}")
    else:
        note(f"change it with git, then: derive patches refresh {upstream}")
