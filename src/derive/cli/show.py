# SPDX-License-Identifier: Apache-2.0
"""Show what the project declares, or one image, derivation, tree or blob.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.canonical import Digest
from derive.cli.console import answer, answer_record, project_of, store_folder, table, wants_json
from derive.cli.lapses import tell_lapsed
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

    from derive.build.describe import Description

EXAMPLES = """\
  derive show                          every image, derivation and lock set
  derive show probe                    an image: its layers and what they are made of
  derive show perftest --platform linux/arm64
  derive show tree:sha256:<hex>        the paths of a tree
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "operand", nargs="?", metavar="NAME", help="a name, image:NAME, drv:NAME or ID, tree:DIGEST, DIGEST"
    )
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")


def run(args: argparse.Namespace) -> int:
    """Find it and print it."""
    from derive.build.describe import describe, describe_project

    with LocalStore(store_folder(args), reading=True) as store:
        if args.operand is None:
            found = describe_project(project_of(args))
        else:
            found = describe(lambda: project_of(args), store, args.operand, args.platform)
        if found.kind == "derivation":
            tell_lapsed(args, store, [Digest.parse(str(found.body["derivation"]))])
    if wants_json(args):
        answer_record(f"show-{found.kind}", found.subject, found.body)
    else:
        answer(_text(found))
    return 0


def _text(found: Description) -> str:
    parts = []
    if found.facts:
        parts.append(table(list(found.facts)))
    if found.rows:
        parts.append(table(list(found.rows)))
    return "\n\n".join(parts)
