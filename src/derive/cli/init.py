# SPDX-License-Identifier: Apache-2.0
"""Start a project that derives: a wish, a root, a sandboxed script and an image, ready to lock.

Edge: the file system, standard streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, wants_json
from derive.cli.options import something

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive init my-cluster && cd my-cluster && derive lock && derive image
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "folder", nargs="?", default=".", type=something, metavar="FOLDER", help="made when absent (default: here)"
    )
    parser.add_argument("--name", metavar="NAME", help="the image's name (default: the folder's)")


def run(args: argparse.Namespace) -> int:
    """Write the files, say what comes next."""
    from derive.init.write import write_project

    folder = Path(args.folder)
    name = args.name or folder.resolve().name.lower()
    files = write_project(folder, name)
    if wants_json(args):
        answer_record("init", name, {"folder": str(folder), "files": list(files)})
    else:
        answer("\n".join(str(folder / file) for file in files))
        there = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
        note(f"next: {there}derive lock && derive image")
    return 0
