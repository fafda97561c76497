# SPDX-License-Identifier: Apache-2.0
"""Write an image as a Dockerfile with its layers, which people without derive build with docker buildx.

Edge: the store, standard streams, a folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, store_folder, wants_json
from derive.cli.exporting import derived_image, layer_names_of
from derive.cli.options import something
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive export dockerfile probe
  derive export dockerfile probe --platform linux/arm64 --to probe-arm64
  sh probe-arm64/build.sh --builder NAME
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the image (default: the project's default image)")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")
    parser.add_argument(
        "--to",
        type=something,
        metavar="FOLDER",
        help="a folder that is empty or not there; without it the Dockerfile alone is printed",
    )


def run(args: argparse.Namespace) -> int:
    """Derive the image where it is not there, and write it."""
    from derive.buildkit.image_export import check_folder, export_dockerfile, image_text

    if args.to:
        check_folder(Path(args.to))
    project = project_of(args)
    with LocalStore(store_folder(args)) as store:
        name, platform, native = derived_image(args, project, store)
        names = layer_names_of(project, name, platform, store)
        if args.to:
            text = export_dockerfile(store, native, name, names, Path(args.to))
            note(f"written to {args.to}: its README.md says how it is built")
        else:
            text = image_text(store, native, name, names)
    if wants_json(args):
        answer_record("dockerfile", name, {"native": str(native), "dockerfile": text, "folder": args.to})
    else:
        answer(str(native) if args.to else text.rstrip("\n"))
    return 0
