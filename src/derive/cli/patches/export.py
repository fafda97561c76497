# SPDX-License-Identifier: Apache-2.0
"""Write patches as a mailbox for git am and as a branch of the work tree, to send upstream, without our header fields.

Edge: the work tree, standard streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer_record, note, project_root, wants_json
from derive.cli.outputs import answer_beside
from derive.words import count_text

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive patches export perftest -o perftest.mbox
  derive patches export perftest 0002 --onto upstream/main --branch gid-by-subnet -o gid.mbox
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("upstream", metavar="UPSTREAM", help="a folder of patches/")
    parser.add_argument("patch", nargs="*", metavar="PATCH", help="these alone (default: the whole series)")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="where the mailbox is written; - prints it"
    )
    parser.add_argument(
        "--onto", metavar="REV", help="a commit that was fetched into the work tree (default: the source)"
    )
    parser.add_argument("--branch", metavar="NAME", help="the branch to make (default: send/UPSTREAM)")
    parser.add_argument("--tree", metavar="DIR", help="the work tree (default: .cache/patches/UPSTREAM)")


def run(args: argparse.Namespace) -> int:
    """Write both, and name the commit."""
    from derive.outfile import open_output
    from derive.patches.export import export
    from derive.patches.publish import read_series
    from derive.patches.worktree import default_tree

    say = answer_beside(args, args.output)
    root = project_root(args)
    tree = Path(args.tree).absolute() if args.tree else default_tree(root, args.upstream)
    series = read_series(root, args.upstream)
    made = export(series, tree, patches=args.patch, onto=args.onto, branch=args.branch)
    with open_output(args.output) as file:
        file.write(made.mailbox)
    if wants_json(args):
        facts = {"branch": made.branch, "commit": made.commit, "patches": list(made.patches)}
        answer_record("patches-export", args.upstream, facts)
    else:
        say(made.commit)
    where = "on standard output" if args.output == "-" else f"in {args.output}"
    note(f"{count_text(len(made.patches), 'patch', 'patches')} {where}; branch {made.branch} of {tree}")
    if made.has_cr:
        note("some lines end in CRLF: apply the mailbox with git am --keep-cr")
    return 0
