# SPDX-License-Identifier: Apache-2.0
"""Write the content of a release into a folder that is a project: deriving there gives the release again.

Edge: the project's records, git, the store, archives and capsules, one folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, project_root, store_folder, wants_json
from derive.cli.options import something
from derive.words import count_text

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json

EXAMPLES = """\
  derive records checkout probe-1 --output then
  derive records checkout probe-1 --output then --capsule probe-1.capsule.tar
  cd then && derive release probe-1 --recipe probe --write-to out
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("release", type=something, metavar="NAME", help="a release, by name or digest")
    parser.add_argument("--output", type=something, required=True, metavar="DIR", help="a folder that is new or empty")
    parser.add_argument(
        "--capsule", action="append", default=[], metavar="PATH", help="look there first; may be given again"
    )


def run(args: argparse.Namespace) -> int:
    """Find every file by its hash, write them, answer with the folder."""
    from derive.releases.checkout import checkout
    from derive.releases.find import find_release

    root, folder = project_root(args), Path(args.output)
    known = find_release(root, args.release)
    files = checkout(known, folder, root, store=store_folder(args), capsules=args.capsule)
    if wants_json(args):
        body: dict[str, Json] = {"release": str(known.digest), "folder": path_text(folder), "files": len(files)}
        answer_record("records-checkout", known.name, body)
        return 0
    note(f"{count_text(len(files), 'file')} of {known.name}, each by its hash")
    answer(args.output)
    return 0
