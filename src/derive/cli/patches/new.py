# SPDX-License-Identifier: Apache-2.0
"""Add the difference between the patched source and a folder to the end of a series; the answer is the new file.

Edge: the store, the folder, the project's folder, standard streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, project_root, store_folder, wants_json
from derive.cli.running import options_of
from derive.store.local import LocalStore
from derive.words import count_text

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive patches new --from ~/src/perftest perftest fix-the-size
  derive patches new --from ~/src/perftest perftest fix-the-size --only src --description "Fix the size of a report"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("upstream", metavar="UPSTREAM", help="a folder of patches/")
    parser.add_argument("name", metavar="NAME", help="what it does, in a few words-with-hyphens; it gets a number")
    parser.add_argument("--from", dest="tree", required=True, metavar="TREE", help="the folder that has the change")
    parser.add_argument("--only", action="append", default=[], metavar="PATH", help="look at this path of it alone")
    parser.add_argument("--description", metavar="TEXT", help="the first line of the header")
    parser.add_argument("--author", default="", metavar="WHO", help="Name <address>, for the header")
    parser.add_argument(
        "--source", metavar="TREE", help="instead of the declared source: a name, folder, archive, tree"
    )
    parser.add_argument("--offline", action="store_true", help="fetch nothing")


def run(args: argparse.Namespace) -> int:
    """Write the patch, and name it."""
    from derive.cli.progress import progress_for_stderr
    from derive.patches.append import append
    from derive.patches.origins import Shop
    from derive.patches.publish import read_series

    root = project_root(args)
    series = read_series(root, args.upstream)
    with LocalStore(store_folder(args)) as store:
        options = options_of(args)
        shop = Shop(project=project_of(args), store=store, options=options, progress=progress_for_stderr)
        made = append(
            shop,
            series,
            Path(args.tree),
            name=args.name,
            description=args.description,
            author=args.author,
            only=args.only,
            source=args.source,
        )
    path = f"patches/{args.upstream}/{made.name}"
    if wants_json(args):
        answer_record("patches-new", args.upstream, {"patch": made.name, "paths": made.paths})
    else:
        answer(path)
    note(f"{count_text(made.paths, 'path')} changed; write the header: why, whence, when it may go")
    return 0
