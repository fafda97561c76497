# SPDX-License-Identifier: Apache-2.0
"""Write everything from which a release derives, toolchain and engine included, into one folder or file.

Edge: the project, its records, the store, the network, standard streams; writes one folder or file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, project_root, store_folder, wants_json
from derive.cli.options import something
from derive.cli.running import options_of
from derive.store.local import LocalStore
from derive.words import count_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.capsule.service import Created
    from derive.capsule.write import Room

EXAMPLES = """\
  derive capsule create probe-1 --output probe-1.tar           one file
  derive capsule create probe-1 --output kept                  a folder
  derive capsule create probe-2 --output kept --add            beside probe-1: what both have is there once
  derive capsule create probe-1 --output x86.tar --platform linux/amd64
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("release", type=something, metavar="RELEASE", help="its name or digest")
    parser.add_argument(
        *("-o", "--output"),
        type=something,
        required=True,
        metavar="PATH",
        help="a folder, or one file whose name ends in .tar",
    )
    parser.add_argument(
        "--platform",
        action="append",
        default=[],
        choices=("linux/amd64", "linux/arm64"),
        help="the images to derive from it (default: all of the release); may be given again",
    )
    engine = parser.add_mutually_exclusive_group()
    engine.add_argument("--without-engine", action="store_true", help="leave out what the engine itself is built from")
    engine.add_argument("--built-engine", action="store_true", help="add it built, so that an audit need not build it")
    parser.add_argument("--add", action="store_true", help="keep the releases that the capsule holds already")
    parser.add_argument("--offline", action="store_true", help="bring nothing that the store lacks over a network")


def run(args: argparse.Namespace) -> int:
    """Bring what is lacking, pack, answer with the digest of the capsule's manifest."""
    from derive.capsule.service import Where, create
    from derive.cli.progress import progress_for_stderr
    from derive.releases.find import find_release

    root, folder = project_root(args), store_folder(args)
    at = Where(root=root, known=find_release(root, args.release), store=folder)
    with LocalStore(folder) as store:
        made = create(
            at,
            store,
            Path(args.output).absolute(),
            options_of(args),
            platforms=args.platform,
            engine=not args.without_engine,
            built_engine=args.built_engine,
            add=args.add,
            say=_say,
            progress=progress_for_stderr(),
        )
    return _answer(args, made)


def _say(room: Room) -> None:
    note(f"to write: {count_text(room.blobs, 'blob')}, {size_text(room.size)}; {size_text(room.free)} are free there")


def _answer(args: argparse.Namespace, made: Created) -> int:
    (listed,) = (one for one in made.whole.listed if one.name == made.document.name)
    if wants_json(args):
        body: dict[str, Json] = {
            "path": path_text(Path(args.output)),
            "manifest": str(listed.manifest),
            "release": str(made.document.release),
            "platforms": list(made.document.platforms),
            "engine": list(made.document.engine),
            "blobs": made.document.blobs,
            "size_bytes": made.document.size,
            "releases": [one.name for one in sorted(made.whole.listed)],
        }
        answer_record("capsule", made.document.name, body)
    else:
        answer(str(listed.manifest))
    note(f"{made.document.name}: {count_text(made.document.blobs, 'blob')}, {size_text(made.document.size)}")
    return 0
