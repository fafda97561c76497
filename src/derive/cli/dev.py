# SPDX-License-Identifier: Apache-2.0
"""Derive an image with work trees laid over it, for trying an edit; such an image is never promoted.

Edge: the store, folders of this machine, standard streams.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from derive.cli.console import answer_record, project_of, store_folder, wants_json
from derive.cli.options import something
from derive.cli.outputs import answer_beside
from derive.cli.running import options_of
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive dev probe --overlay ../tools
  derive dev probe --overlay ~/src/vllm/vllm:/usr/local/lib/python3.13/dist-packages/vllm
  derive dev probe --overlay tools:/opt/tools --output probe-dev.oci.tar
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", nargs="?", metavar="IMAGE", help="the image (default: the project's default image)")
    parser.add_argument(
        "--overlay",
        action="append",
        required=True,
        metavar="TREE[:/PLACE]",
        help="a folder whose files are laid over the image, at its root or at a place; may be given again",
    )
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")
    parser.add_argument("--keep-failed", action="store_true", help="keep a failed script's folders for derive shell")
    parser.add_argument(
        "--output",
        type=something,
        metavar="PATH",
        help="also write an OCI layout: a folder, or a file ending in .tar; - prints it",
    )


def run(args: argparse.Namespace) -> int:
    """Derive, answer with the digest."""
    from derive.build.dev import derive_dev_image, parse_work_trees
    from derive.cli.progress import progress_for_stderr

    say = answer_beside(args, args.output)
    trees = parse_work_trees(args.overlay)
    project = project_of(args)
    name = project.settings.default_image if args.name is None else args.name
    options = replace(options_of(args), keep_failed=args.keep_failed)
    with LocalStore(store_folder(args)) as store:
        done = derive_dev_image(project, name, args.platform, trees, store, options, progress_for_stderr())
        if args.output:
            from derive.images.layout import export_image

            export_image(store, done.manifest, f"{name}-dev", args.output)
    if wants_json(args):
        answer_record("dev", name, {"digest": str(done.manifest), "promotable": False})
    else:
        say(str(done.manifest))
    return 0
